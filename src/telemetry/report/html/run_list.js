"use strict";
/* A list of runs: a table to sort and filter, and the curves of the chosen runs over each other. */
(async () => {
  const { NOTHING, element, svg, count, seconds, read, known, least, most, stretches, path, crosshair, rangeBar, grid } = telemetry;
  const { runs } = await read("runs-data");
  const COLORS = 8; // as many runs can be told apart in a chart
  const FIGURES = 8, PARAMS = 8, FIRST = 5, FEW = 4, CHUNK = 50;

  const place = document.getElementById("run-table"), charts = document.getElementById("run-charts");
  const chosen = new Map(); // run → colour
  const sorting = { key: "start", down: true };
  const narrow = matchMedia("(max-width: 640px)"); // figures come right after the result then, and the curve last
  const withCurve = (curve, cells) => (narrow.matches ? [...cells, curve] : [curve, ...cells]);
  let words = [], made = CHUNK;

  const text = (run) => [run.name, run.id, run.result, ...Object.entries(run.settings).map(([name, [value]]) => `${name}=${value}`)].join(" ").toLowerCase();
  const plain = (...maps) => Object.assign(Object.create(null), ...maps); // any name may be a key, such as "constructor"
  for (const run of runs) {
    run.settings = plain(run.params, run.environment);
    run.figures = plain(run.figures);
    run.text = text(run);
    run.curves = run.curves.map((curve) => ({ unit: "", whole: "", step: false, means: false, ...curve, x: run.xs[curve.x] }));
  }
  const shown = () => runs.filter((run) => words.every((word) => run.text.includes(word)));

  /** Names of columns that most of the runs have, in the order in which they come; a long list needs no column for one run. */
  function common(some, of, limit, keep = () => true) {
    const numbers = new Map();
    for (const run of some) for (const name of Object.keys(of(run))) numbers.set(name, (numbers.get(name) ?? 0) + 1);
    const least = some.length > FEW ? 2 : 1;
    const kept = [...numbers.keys()].filter((name) => numbers.get(name) >= least && keep(name)), wanted = [...kept].sort((a, b) => numbers.get(b) - numbers.get(a)).slice(0, limit);
    return kept.filter((name) => wanted.includes(name));
  }

  /** Parameters in which runs differ: the user's own, then those of code and machine, which not every run has recorded. */
  function differing(some, limit) {
    const values = (name) => some.map((run) => run.settings[name]?.[0]), known = (name) => values(name).filter((value) => value !== undefined);
    const own = common(some, (run) => run.params, limit, (name) => new Set(values(name)).size > 1);
    return [...own, ...common(some, (run) => run.environment, limit - own.length, (name) => new Set(known(name)).size > 1)];
  }

  /** {title, key, cell: run → [text, number, style]} of all columns that these runs need. */
  function columns(some) {
    const figures = common(some, (run) => run.figures, FIGURES), params = differing(some, PARAMS);
    const ofParams = params.map((name) => ({ title: name, key: `param ${name}`, cell: (run) => run.settings[name] ?? ["", null], param: true }));
    const ofFigures = figures.map((name) => ({ title: name, key: `figure ${name}`, cell: (run) => run.figures[name] ?? ["", null] }));
    return [
      ...(narrow.matches ? [...ofFigures, ...ofParams] : [...ofParams, ...ofFigures]),
      { title: "took", key: "took", cell: (run) => run.took },
      { title: "started, UTC", key: "start", cell: (run) => [run.started.slice(5, 16), run.start, "", run.started] },
    ];
  }

  function ordered(some, all) {
    const sign = sorting.down ? -1 : 1, column = all.find((one) => one.key === sorting.key);
    const text = { name: (run) => run.name, result: (run) => run.result }[sorting.key];
    const isNothing = (value) => value === "" || value === NOTHING;
    const compare = (a, b) => {
      const [left, right] = text ? [text(a), text(b)] : [a, b].map((run) => column?.cell(run)[1] ?? column?.cell(run)[0] ?? "");
      if (isNothing(left) !== isNothing(right)) return isNothing(left) ? 1 : -1; // nothing comes last
      if (typeof left === "number" && typeof right === "number") return sign * (left - right);
      return sign * (String(left) < String(right) ? -1 : String(left) > String(right) ? 1 : 0);
    };
    return [...some].sort(compare);
  }

  function spark(run) {
    const curve = run.curves[run.main];
    if (!curve || known(curve.values).length < 2) return "";
    const drawn = known(curve.values), low = least(drawn), high = most(drawn);
    const spot = ([at, value]) => [(at / (curve.values.length - 1)) * 60 + 2, 20 - ((value - low) / (high - low || 1)) * 16];
    return svg("svg", { viewBox: "0 0 64 24", width: 64, height: 24, role: "img", "aria-label": curve.title }, svg("title", {}, curve.title),
      svg("path", { class: "line c0", d: stretches(curve.values).map((part) => path(part.map(spot))).join("") }));
  }

  function row(run, all) {
    const color = chosen.get(run), full = chosen.size >= COLORS && color === undefined;
    const box = element("input", { type: "checkbox", "aria-label": `Curves of ${run.name} ${run.id}`, disabled: !run.curves.length || full, "data-run": runs.indexOf(run),
      title: run.curves.length ? (full ? `At most ${COLORS} runs` : "Show its curves") : "No curves", on: { change: () => choose(run, box.checked) } });
    box.checked = color !== undefined;
    const cells = all.map(({ cell, param }) => {
      const [shown, , style, title] = cell(run);
      return element("td", { class: [param && "param", style && `${style}-text`].filter(Boolean).join(" ") || undefined, title }, shown);
    });
    const name = run.link ? element("a", { href: run.link }, run.name) : run.name;
    return element("tr", {},
      element("td", { class: "tick-box" }, element("label", { class: color === undefined ? "" : `key c${color}` }, box)),
      element("th", { scope: "row" }, name, element("small", {}, run.id)),
      element("td", { class: "left" }, element("span", { class: `badge ${run.health}` }, run.result)),
      ...withCurve(element("td", { class: "spark" }, spark(run)), cells));
  }

  function head({ title, key, left }) {
    const own = sorting.key === key;
    return element("th", { scope: "col", class: left && "left", "aria-sort": own ? (sorting.down ? "descending" : "ascending") : "none" },
      element("button", { type: "button", class: "sort", title: "Sort by this", on: { click: () => {
        Object.assign(sorting, { down: own ? !sorting.down : key !== "name" && key !== "result", key });
        renew();
      } } }, title));
  }

  const status = element("span", { class: "soft", role: "status" }), box = element("div", { class: "scroll runs" });
  const more = element("button", { type: "button", class: "more", on: { click: () => { made = Infinity; renew(); } } });
  const filter = element("input", { type: "search", placeholder: "Filter by name, result or parameter", "aria-label": "Filter runs" });
  filter.addEventListener("input", () => {
    words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    renew();
  });
  const none = element("button", { type: "button", class: "scale", on: { click: () => { chosen.clear(); renew(); draw(); } } }, "Choose none");
  const these = element("button", { type: "button", class: "scale", title: `The first ${COLORS} runs of the table`, on: { click: () => {
    chosen.clear();
    const some = shown();
    ordered(some, columns(some)).filter((run) => run.curves.length).slice(0, COLORS).forEach((run, at) => chosen.set(run, at));
    renew();
    draw();
  } } }, "Choose these");

  function renew() {
    const some = shown(), all = columns(some), list = ordered(some, all), at = box.scrollTop;
    const lead = [element("th", { class: "tick-box" }), head({ title: "name", key: "name", left: true }), head({ title: "result", key: "result", left: true })];
    box.replaceChildren(element("table", {},
      element("thead", {}, element("tr", {}, ...lead, ...withCurve(element("th", { scope: "col", class: "left" }, "curve"), all.map(head)))),
      element("tbody", {}, ...list.slice(0, made).map((run) => row(run, all)))));
    box.scrollTop = at;
    more.hidden = list.length <= made;
    more.textContent = `Show all ${count(list.length)}`;
    status.textContent = words.length ? `${count(list.length)} of ${count(runs.length)} runs` : `${count(runs.length)} runs`;
  }

  function choose(run, wanted) {
    chosen.delete(run);
    const free = Array.from({ length: COLORS }, (_, at) => at).find((at) => ![...chosen.values()].includes(at));
    if (wanted && free !== undefined) chosen.set(run, free);
    renew();
    draw();
    place.querySelector(`[data-run="${runs.indexOf(run)}"]`)?.focus();
  }

  /** Text from right to left that leaves the order of what follows as it is. */
  const isolated = (text) => (/[\u0590-\u08ff\ufb1d-\ufefc]/.test(text) ? `\u2068${text}\u2069` : text);

  /** What tells a run from the other chosen ones: its name, the parameters that differ, or its id. */
  function labels(some) {
    const names = new Set(some.map((run) => run.name)).size > 1, differ = differing(some, 3);
    const label = (run) => [names || !differ.length ? run.name : "", ...differ.filter((name) => run.settings[name]).flatMap((name) => [name, run.settings[name][0]])].filter(Boolean).map(isolated).join(" ");
    return new Map(some.map((run) => [run, some.some((other) => other !== run && label(other) === label(run)) ? `${label(run)} ${run.id}` : label(run)]));
  }

  /** The first step of a curve, whose first point may be a mean of several steps. */
  const begin = ({ x, means }) => (means && x.length > 1 ? [Math.max(x[0] - (x[1] - x[0]) + 1, 0)] : []);

  const kinds = [
    { step: true, title: "By step", state: { weight: 0, log: false }, words: ([from, to]) => `Steps ${count(Math.ceil(from))} – ${count(Math.floor(to))}` },
    { step: false, title: "Over time, from the start of each run", state: { weight: 0, log: false }, words: ([from, to]) => `${seconds(from)} – ${seconds(to)}` },
  ];
  for (const kind of kinds) {
    kind.cross = crosshair();
    rangeBar(kind.cross, kind.words);
  }

  function draw() {
    if (!charts) return;
    const some = [...chosen.keys()], named = labels(some);
    charts.replaceChildren(...(some.length ? [] : [element("p", { class: "soft" }, "Choose runs in the table to see their curves over each other.")]));
    for (const kind of kinds) {
      const items = new Map();
      for (const run of some) for (const curve of run.curves) {
        if (curve.step !== kind.step) continue;
        const key = `${curve.title} ${curve.unit}`, line = { name: named.get(run), values: curve.values, x: curve.x, begin: begin(curve), place: chosen.get(run), whole: curve.whole };
        if (!items.has(key)) items.set(key, { name: curve.title, unit: curve.unit, lines: [], facts: [] });
        const item = items.get(key);
        item.lines.push(line);
        item.about ||= curve.means;
      }
      kind.cross.charts.clear();
      kind.cross.draws.clear();
      if (!items.size) continue;
      const list = [...items.values()].map((item) => ({ ...item, x: [...new Set(item.lines.flatMap((line) => line.x))].sort((a, b) => a - b) }));
      const xs = [...list.flatMap((item) => [item.x[0], item.x[item.x.length - 1]]), ...list.flatMap((item) => item.lines.flatMap((line) => line.begin))];
      const domain = kind.cross.whole = [kind.step ? least(xs) : 0, most(xs)];
      const host = charts.appendChild(element("div"));
      charts.insertBefore(element("h3", {}, kind.title), host);
      grid(host, { items: list, axis: kind.step ? "step" : "time", domain, smoothing: kind.step,
        what: "charts", size: "wide", state: kind.state }, kind.cross);
    }
  }

  place.append(element("div", { class: "tools" }, filter, status, these, none), box, more);
  // The most repeated name is what a reader compares; of several the newest.
  const drawable = runs.filter((run) => run.curves.length), times = (name) => drawable.filter((run) => run.name === name).length;
  const [first] = [...new Set(drawable.map((run) => run.name))].sort((a, b) => times(b) - times(a));
  drawable.filter((run) => run.name === first).slice(0, FIRST).forEach((run, at) => chosen.set(run, at));
  renew();
  draw();
  addEventListener("beforeprint", () => { made = Infinity; renew(); });
  narrow.addEventListener("change", renew);
  document.documentElement.dataset.drawn = "true"; // for those who wait for it before they print
})();
