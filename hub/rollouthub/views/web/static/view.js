// What the pages can do beyond links and forms: keys, a table that scrolls, and news of what plays.
// Nothing here makes HTML of text: parts of pages are fetched as documents, and their elements are moved over.
"use strict";
(() => {
  const body = document.body, kind = body.dataset.page;
  const byId = (id) => document.getElementById(id);
  const isField = (found) => found && /^(INPUT|TEXTAREA|SELECT)$/.test(found.tagName) && found.type !== "checkbox";

  // A part of a page, fetched as a document in which no script runs.
  function fetchPart(address) {
    return new Promise((done, failed) => {
      const asked = new XMLHttpRequest();
      asked.open("GET", address);
      asked.responseType = "document";
      asked.timeout = 30000;
      asked.onload = () => (asked.status === 200 && asked.response ? done(asked.response) : failed(asked.status));
      asked.onerror = asked.ontimeout = () => failed(0);
      asked.send();
    });
  }

  // Put the parts of another document in the place of those with the same id here.
  function swap(from, ids) {
    for (const id of ids) {
      const old = byId(id), now = from.getElementById(id);
      if (!old || !now || old.contains(document.activeElement) && isField(document.activeElement)) continue;
      if (old.outerHTML === now.outerHTML) continue;
      const open = [...old.querySelectorAll("details")].map((found) => found.open);
      old.replaceWith(document.adoptNode(now));
      [...byId(id).querySelectorAll("details")].forEach((found, at) => { found.open = open[at] ?? found.open; });
    }
  }

  // ---- The table of rollouts: a window of rows in a space as high as all rows.
  const AHEAD = 60, AT_ONCE = 200, MOST_PIXELS = 15e6;
  const rows = kind === "run" && !("static" in body.dataset) ? byId("rows") : null;
  let table = null;

  function virtual(element) {
    const tbody = element.tBodies[0];
    const height = tbody.rows[0].getBoundingClientRect().height || 36;
    let total = +element.dataset.total, first = +element.dataset.first, count = tbody.rows.length;
    if (total * height > MOST_PIXELS) return null;  // browsers draw no higher page; the links lead on
    const above = document.createElement("tr"), below = document.createElement("tr");
    for (const space of [above, below]) {
      space.className = "space";
      space.setAttribute("aria-hidden", "true");
      const cell = space.insertCell();
      cell.colSpan = element.tHead.rows[0].cells.length;
    }
    tbody.prepend(above);
    tbody.append(below);
    document.querySelector(".pages")?.remove();
    let asked = 0, wanted = -1, current = -1;

    function layOut() {
      above.cells[0].style.height = `${first * height}px`;
      below.cells[0].style.height = `${Math.max(0, total - first - count) * height}px`;
      above.hidden = !first;
      below.hidden = first + count >= total;
      element.setAttribute("aria-rowcount", total + 1);
    }
    const top = () => element.getBoundingClientRect().top + scrollY + element.tHead.getBoundingClientRect().height;
    const atTop = () => Math.floor((scrollY + barHeight() - top()) / height);
    function barHeight() { return document.querySelector(".top").getBoundingClientRect().height + element.tHead.getBoundingClientRect().height; }

    async function load(start) {
      start = Math.max(0, Math.min(start, Math.max(0, total - AT_ONCE)));
      if (wanted === start) return;
      wanted = start;
      const ticket = ++asked;
      const address = new URL(location.href);
      address.pathname += "/rows";
      address.searchParams.set("offset", start);
      address.searchParams.set("limit", AT_ONCE);
      address.hash = "";
      try {
        const found = (await fetchPart(address)).getElementById("rows");
        if (ticket !== asked || !found) return;
        const focused = document.activeElement?.closest?.("#rows tbody tr") != null;
        total = +found.dataset.total;
        first = +found.dataset.first;
        const fresh = [...found.tBodies[0].rows].map((row) => document.adoptNode(row));
        count = fresh.length;
        while (above.nextSibling !== below) above.nextSibling.remove();
        above.after(...fresh);
        layOut();
        mark(focused);
        requestAnimationFrame(look);  // a scroll meanwhile may have gone elsewhere
      } catch { /* the server is gone, or busy: the next scroll asks again */ } finally {
        if (ticket === asked) wanted = -1;
      }
    }
    function look() {
      const from = Math.max(0, atTop()), to = from + Math.ceil(innerHeight / height);
      const near = (from < first + AHEAD / 3 && first > 0) || (to > first + count - AHEAD / 3 && first + count < total);
      if (near) load(Math.floor((from + to - AT_ONCE) / 2));
    }
    let waits = false, noted = 0;
    addEventListener("scroll", () => {
      if (waits) return;
      waits = true;
      requestAnimationFrame(() => { waits = false; look(); });
      clearTimeout(noted);
      noted = setTimeout(note, 400);
    }, { passive: true });

    function note() {  // so that a reload comes back to where it was
      const at = atTop(), address = new URL(location.href);
      if (at > 0) address.searchParams.set("offset", at); else address.searchParams.delete("offset");
      if (address.href !== location.href) history.replaceState(null, "", address);
    }
    function mark(focus) {
      for (const row of tbody.querySelectorAll(".here")) row.classList.remove("here");
      const row = current < first || current >= first + count ? null : tbody.rows[1 + current - first];
      row?.classList.add("here");
      if (focus) row?.querySelector("a")?.focus({ preventScroll: true });
      return row;
    }
    async function go(to) {
      current = Math.max(0, Math.min(to, total - 1));
      for (let tries = 0; tries < 4 && (current < first || current >= first + count); tries++) {  // a scroll may load others meanwhile
        const at = top() + current * height - innerHeight / 2;
        scrollTo({ top: at, behavior: "instant" });
        wanted = -1;
        await load(current - AT_ONCE / 2);
      }
      const row = mark(true);
      if (!row) return;
      const box = row.getBoundingClientRect(), bar = barHeight();
      if (box.top < bar) scrollBy({ top: box.top - bar - height, behavior: "instant" });
      else if (box.bottom > innerHeight) scrollBy({ top: box.bottom - innerHeight + height, behavior: "instant" });
    }
    async function changed(now) {
      const added = now - total, down = new URL(location.href).searchParams;
      const sort = down.get("sort") || "auto";
      const isNewestFirst = sort === "auto" ? down.get("order") !== "down" : sort === "seq" && down.get("order") !== "up";
      const isBelow = atTop() > 0;
      if (isNewestFirst && current >= 0) current += Math.max(0, added);
      wanted = -1;
      if (isNewestFirst && isBelow && added > 0) {
        total = now; first += added;
        layOut();
        scrollBy({ top: added * height, behavior: "instant" });
        return;  // what is in view stays in view
      }
      await load(first);
    }
    const asksFor = +new URL(location.href).searchParams.get("offset");
    layOut();
    if (asksFor > 0 && !location.hash) {
      history.scrollRestoration = "manual";
      scrollTo({ top: top() + asksFor * height - barHeight(), behavior: "instant" });
    }
    const back = /^#at-(\d+)$/.exec(location.hash);
    if (back && total) go(+back[1]);  // looks around when it scrolls: from here it would load the beginning over it
    else look();
    return { next: (by) => go(current < 0 ? Math.max(0, atTop()) : current + by), go, last: () => go(total - 1), changed,
             now: () => mark(false) };
  }
  if (rows && rows.tBodies[0].rows.length) table = virtual(rows);

  // ---- Rows of other tables, and turns.
  const plainRows = () => [...document.querySelectorAll("table.rollouts tbody tr, table.runs tbody tr, table.tasks tbody tr")];
  const turns = () => [...document.querySelectorAll("[id^=turn-]")];
  let place = -1;
  function stepTo(all, at) {
    if (!all.length) return;
    place = Math.max(0, Math.min(at, all.length - 1));
    for (const found of document.querySelectorAll("tr.here")) found.classList.remove("here");
    all[place].classList.add("here");
    const link = all[place].querySelector("a");
    (link ?? all[place]).focus({ preventScroll: true });
    all[place].scrollIntoView({ block: "nearest" });
  }
  function turnTo(at) {
    const all = turns();
    if (!all.length) return;
    const to = all[Math.max(0, Math.min(at, all.length - 1))];
    history.replaceState(null, "", `#${to.id}`);
    to.scrollIntoView({ block: "start" });
    outline();
  }
  function turnNow() {
    const all = turns(), edge = document.querySelector(".top").getBoundingClientRect().bottom + 40;
    let found = -1;
    all.forEach((turn, at) => { if (turn.getBoundingClientRect().top <= edge) found = at; });
    return found;
  }
  function outline() {
    const at = turnNow(), id = turns()[Math.max(0, at)]?.id;
    for (const link of document.querySelectorAll(".outline a")) link.classList.toggle("here", link.hash === `#${id}`);
  }
  if (document.querySelector(".outline")) {
    let waits = false;
    addEventListener("scroll", () => {
      if (!waits) requestAnimationFrame(() => { waits = false; outline(); });
      waits = true;
    }, { passive: true });
    outline();
  }

  // ---- A click on a row opens it, where it selects no text.
  document.addEventListener("click", (event) => {
    const row = event.target.closest?.("table.rollouts tbody tr, table.runs tbody tr");
    if (!row || event.target.closest("a, input, button, label") || String(getSelection())) return;
    const link = row.querySelector("a");
    if (!link) return;
    if (event.ctrlKey || event.metaKey) open(link.href, "_blank", "noopener"); else location.href = link.href;
  });

  // ---- Keys, as in the terminal.
  const help = byId("help"), button = byId("keys");
  if (button) {
    button.hidden = false;
    button.addEventListener("click", () => help.showModal());
  }
  function up() { if (body.dataset.up) location.href = body.dataset.up; }
  function to(selector) { const link = document.querySelector(selector); if (link) location.href = link.href; }
  // What notes a rollout: that of the page, or of the row in a list.
  function press(key) {
    const place = table && key !== "V" ? table.now() : document, found = place?.querySelector(`[data-key="${key}"]`);
    if (!isField(found)) { found?.click(); return; }
    found.closest("details").open = true;
    found.focus();
  }
  const isTurns = kind === "rollout" || kind === "flight" || kind === "sides";
  const keys = {
    j: () => (isTurns ? turnTo(turnNow() + 1) : table ? table.next(1) : stepTo(plainRows(), place + 1)),
    k: () => (isTurns ? turnTo(turnNow() - 1) : table ? table.next(-1) : stepTo(plainRows(), place - 1)),
    g: () => (isTurns ? scrollTo({ top: 0 }) : table ? table.go(0) : stepTo(plainRows(), 0)),
    G: () => (isTurns ? scrollTo({ top: body.scrollHeight }) : table ? table.last() : stepTo(plainRows(), Infinity)),
    "/": () => { const field = byId("filter"); if (field) { field.focus(); field.select(); } },
    f: () => keys["/"](),
    "?": () => help?.showModal(),
    "]": () => to("a[rel=next]"),
    "[": () => to("a[rel=prev]"),
    u: up,
    z: () => {
      const all = [...document.querySelectorAll("main details")], isOpen = all.some((found) => found.open);
      for (const found of all) found.open = !isOpen;
    },
    ...Object.fromEntries([..."#*cvV"].map((key) => [key, () => press(key)])),
    Escape: () => { if (isField(document.activeElement)) document.activeElement.blur(); else up(); },
  };
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || help?.open) return;
    if (isField(document.activeElement) && event.key !== "Escape") return;
    const act = Object.hasOwn(keys, event.key) ? keys[event.key] : null;
    if (!act) return;
    event.preventDefault();
    act();
  });

  // ---- News of what plays. A hidden page lets go of its connection: a browser has few for a server.
  let stream = null, isBusy = false, isStale = false;
  async function refresh() {
    if (isBusy) { isStale = true; return; }
    isBusy = true;
    try {
      const address = new URL(location.href);
      address.hash = "";
      if (kind === "run") {
        address.pathname += "/live";
        const found = await fetchPart(address);
        swap(found, ["status", "figures", "flight", "charts", "quick"]);
        const total = +found.getElementById("live").dataset.total;
        if (table) await table.changed(total);
        else if (total && !rows) location.reload();
      } else if (kind === "flight") {
        address.searchParams.set("part", "live");
        const found = await fetchPart(address);
        if (found.getElementById("talk")) swap(found, ["status", "talk"]); else location.reload();
      } else if (kind === "runs") {
        const marked = new Set([...document.querySelectorAll("#runs input:checked")].map((box) => box.value));
        swap(await fetchPart(address), ["runs", "status"]);
        for (const box of document.querySelectorAll("#runs input")) box.checked = marked.has(box.value);
      }
    } catch { /* the server is gone; the stream says so, or comes back */ } finally {
      isBusy = false;
      if (isStale) { isStale = false; setTimeout(refresh, 300); }
    }
  }
  function listen() {
    if (!body.dataset.events || stream || document.hidden) return;
    stream = new EventSource(body.dataset.events);
    stream.addEventListener("changed", refresh);
    stream.addEventListener("ended", async () => {
      stream.close();
      delete body.dataset.events;
      await refresh();
      location.reload();
    });
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { stream?.close(); stream = null; } else if (body.dataset.events) { listen(); refresh(); }
  });
  addEventListener("pagehide", () => { stream?.close(); stream = null; });
  addEventListener("pageshow", (event) => { if (event.persisted) { listen(); refresh(); } });
  listen();
})();
