"""The report of a run as one of its pages: the same sections as `hub report` writes, for reading and printing."""

from rollouthub.views.markup import Markup, tag
from rollouthub.views.report.gather import ReportedRun, gather
from rollouthub.views.report.html_page import details
from rollouthub.views.web.links import Links
from rollouthub.views.web.opened_runs import OpenedRun
from rollouthub.views.web.page_frame import Crumb, page
from rollouthub.views.web.run_page import heading, title_of


def report_page(opened: OpenedRun, links: Links) -> str:
    """The page with provenance, figures, times, costs, faults and settings; secrets are masked, as in a report."""
    run = ReportedRun(opened.watched.directory, opened.name)
    report = gather([run], opened.plainness, transcripts=0).runs[0]
    crumbs: list[Crumb] = [("runs", links.runs()), (opened.name, links.run(opened.name)), ("report", None)]
    notices: list[Markup] = [tag("p", notice, class_="notice warn") for notice in report.notices]
    shown = f"Report of {title_of(opened.feed.info)}"
    head = heading(opened, links, "report")
    return page(shown, head, *notices, details(report), links=links, crumbs=crumbs, kind="report")
