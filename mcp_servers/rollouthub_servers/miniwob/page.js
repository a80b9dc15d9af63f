// Runs in each page before anything of its own: a clock that stands still between actions, and what the driver asks.
(() => {
  const MOST_CALLS = 20000, RealDate = Date, began = RealDate.UTC(2024, 0, 1, 12);
  const waiting = new Map();
  let now = began, last = 0;

  const later = (run, delay, every, given) => {
    const wait = Math.max(every === undefined ? 0 : 1, Number(delay) || 0);
    waiting.set(++last, {at: now + wait, run, every: every === undefined ? undefined : wait, given});
    return last;
  };
  const drop = (id) => { waiting.delete(id); };

  window.setTimeout = (run, delay, ...given) => later(run, delay, undefined, given);
  window.setInterval = (run, delay, ...given) => later(run, delay, true, given);
  window.requestAnimationFrame = (run) => later(() => run(now - began), 16, undefined, []);
  window.clearTimeout = window.clearInterval = window.cancelAnimationFrame = drop;
  performance.now = () => now - began;
  window.Date = new Proxy(RealDate, {
    construct: (target, given, made) => Reflect.construct(target, given.length ? given : [now], made),
    apply: () => new RealDate(now).toString(),
    get: (target, name) => (name === "now" ? () => now : Reflect.get(target, name)),
  });

  const advance = (milliseconds) => {
    const end = now + milliseconds;
    for (let calls = 0; ; calls++) {
      let next, first;
      for (const [id, each] of waiting) {
        if (each.at <= end && (first === undefined || each.at < first.at)) { next = id; first = each; }
      }
      if (first === undefined || calls === MOST_CALLS) break;
      now = Math.max(now, first.at);
      if (first.every === undefined) waiting.delete(next);
      else first.at = now + first.every;
      try {
        if (typeof first.run === "function") first.run.apply(window, first.given);
      } catch (error) {
        console.error(error);
      }
    }
    now = end;
  };

  const isClear = (colour) => colour === undefined || /^rgba\(.*, 0\)$/.test(colour);
  const isSeen = (element) => element === undefined
    || element.checkVisibility({opacityProperty: true, visibilityProperty: true});
  const isBlank = (style) => parseFloat(style.fontSize) === 0 || isClear(style.color);

  // A list to choose from says what is chosen and, as whoever opens it sees, what can be.
  const valued = (info, element) => (element instanceof HTMLSelectElement
    ? {chosen: [...element.selectedOptions].map((each) => each.text), of: [...element.options].map((each) => each.text)}
    : info.value === undefined ? null : info.value);

  // What is seen of the page: rows of depth, ref, tag, text, value, id, classes, box, background, is focused.
  const listed = (dom) => {
    const rows = [];
    const add = (info, depth, parent) => {
      const element = core.previousDOMInfo[info.ref];
      const styled = element === undefined ? parent : element;
      const words = styled !== undefined && isBlank(getComputedStyle(styled)) ? "" : info.text || "";
      const seen = isSeen(styled);
      if (seen) {
        rows.push([
          depth, info.ref, info.tag.toLowerCase(), words, valued(info, element),
          info.id || "", typeof info.classes === "string" ? info.classes : "",
          [info.left + info.width / 2, info.top + info.height / 2, info.width, info.height].map(Math.round),
          isClear(info.bgColor) ? "" : info.bgColor, info.focused === true,
        ]);
      }
      info.children.forEach((child) => add(child, depth + (seen ? 1 : 0), element));
    };
    add(dom, 0, undefined);
    return rows;
  };

  const told = () => {
    const given = core.getUtterance();
    return String(typeof given === "object" && given !== null ? given.utterance : given);
  };

  const look = () => (WOB_DONE_GLOBAL
    ? {done: true, raw: WOB_RAW_REWARD_GLOBAL}
    : {done: false, raw: WOB_RAW_REWARD_GLOBAL, utterance: told(), elements: listed(core.getDOMInfo())});

  const selected = () => {
    const element = document.activeElement;
    if (element && element.type === "password") return "";
    if (element && typeof element.selectionStart === "number") {
      return element.value.substring(element.selectionStart, element.selectionEnd);
    }
    return String(getSelection());
  };

  const start = (seed, mode) => {
    advance(50);
    core.endEpisode(0);
    Math.seedrandom(seed);
    core.setDataMode(mode);
    core.startEpisodeReal();
    // An episode ends once: else its end would show the button that begins another, below the same click.
    core.startEpisode = () => {};
    core.cover_div.onclick = null;
  };

  const decoded = (images) => Promise.all(images.map((each) => each.decode().catch(() => null)));

  // Loads what the page's style sheets draw, so that its first picture has it.
  const kept = [];
  const prepare = () => {
    for (const sheet of document.styleSheets) {
      const text = [...sheet.cssRules].map((rule) => rule.cssText).join(" ");
      for (const [, address] of text.matchAll(/url\("?([^")]+)"?\)/g)) {
        const image = new Image();
        image.src = new URL(address, sheet.href || document.baseURI).href;
        kept.push(image);
      }
    }
    return decoded(kept);
  };

  Object.defineProperty(window, "__miniwob", {
    value: Object.freeze({
      prepare,
      start,
      isReady: () => { advance(WOB_TASK_READY ? 0 : 50); return WOB_TASK_READY; },
      look: async (milliseconds) => { advance(milliseconds); await decoded([...document.images]); return look(); },
      click: (ref) => core.elementClick(ref),
      selected,
    }),
  });
})();
