"""A report as JSON, for programs; `docs/schemas/report.schema.json` describes it."""

from rollouthub.views.report.report_facts import Report


class JsonReport:
    """The report's facts and figures as one JSON object."""

    endings = (".json",)

    def render(self, report: Report) -> str:
        """The whole object."""
        return report.model_dump_json(indent=2) + "\n"
