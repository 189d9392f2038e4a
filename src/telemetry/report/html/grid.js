"use strict";
/* A grid of small charts. A single line may have a band, between `low` and `high`. All share a crosshair.

     telemetry.grid(host, {items: [{name, group?, unit, x: [x], lines: [{name, values, low?, high?, x?, place?, whole?}],
                                    facts: [[text, value]]}],
                           axis: "step" | "time", axis_name?, domain?, marks?, smoothing?, held?, band?, what, size?: "small" | "wide", state?}, crosshair?)

   `held`: a value lasts until the next one. `band`: what a band goes over, such as "rank". `size` changes how
   many charts a row has. Lines of several runs may have an `x` of their own, and a `place` that keeps their colour. `state` keeps
   smoothing and scale for a grid that is made anew.
   An item that is `about` has points of several runs, of which some are means of several steps.
   An item with `means` has points that are means of several steps: of those after the point before, for the first
   point of those from `from` on; or of the steps in `ranges: [[first, last]]`. */
Object.assign(telemetry, (() => {
  const { element, svg, count, quantity, seconds, known, linear, timeAxis, valueAxis, ground, path, stretches,
          responsive, crosshair, address, visible, least, most, follow, rangeBar, hair, drawMarks, wantsLog, color, named, within, saves } = telemetry;
  const SHOWN = 24; // of each group, before "show all"
  const FILTER_FROM = 12;
  const HEIGHTS = { small: 105, "": 130, wide: 220 }, LARGE = 320;
  const SMOOTH_FROM = 30; // points from which a line can be smoothed
  const USUAL_FROM = 100; // points from which a rough line is smoothed without being asked
  const ROUGH = 6; // way up and down, in heights of the line, from which it is rough
  const USUAL = 0.6;

  /** Exponential moving average, corrected for its start; gaps stay. */
  function smoothed(values, weight) {
    let sum = 0, share = 0;
    return values.map((value) => {
      if (value === null) return null;
      sum = sum * weight + value * (1 - weight);
      share = share * weight + (1 - weight);
      return sum / share;
    });
  }

  const isRough = ({ values }) => {
    const drawn = known(values), way = drawn.reduce((sum, value, at) => sum + (at ? Math.abs(value - drawn[at - 1]) : 0), 0);
    return drawn.length >= USUAL_FROM && way > ROUGH * (most(drawn) - least(drawn));
  };
  /** Smooths what the reader asked for, and before that what is hard to read. */
  const smooths = (line, state) => state.weight > 0 && (state.chosen ? known(line.values).length >= SMOOTH_FROM : line.rough);

  /** What the strokes of a grid mean; only those that are drawn. */
  function strokes(data, state) {
    const lines = data.items.flatMap((item) => item.lines);
    return [
      ...(lines.some((line) => smooths({ ...line, rough: isRough(line) }, state)) ? ["line: smoothed", "pale: as recorded"] : []),
      ...(lines.some((line) => known(line.low ?? []).length) ? [`band: lowest to highest ${data.band ?? "value"}`] : []),
    ].join(" · ");
  }

  function stepAxis(low, high, ticks, whole) {
    const axis = linear(low, high, "", ticks);
    return { ...axis, ends: whole ? [low, high] : undefined, ticks: axis.ticks.filter(Number.isInteger), text: (at) => (at < 1e5 ? count(at) : telemetry.short(telemetry.scaled(at))), word: "step" };
  }

  /** One chart of the grid. */
  function cell(item, data, state, cross) {
    const lines = item.lines.map((line, index) => ({ low: [], high: [], x: item.x, ...line, index: line.place ?? index, rough: isRough(line) }));
    const own = item.lines.some((line) => line.x);
    const several = lines.length > 1;
    const now = element("span", { class: "moment" });
    const facts = element("span", { class: "facts" },
      ...item.facts.flatMap(([text, value], at) => [at ? " · " : "", text && `${text} `, element("b", {}, value)]));
    const read = lines.map((line) => element("b", {}, line.whole ?? ""));
    const keys = several || own ? lines.map((line, at) => element("span", { class: `key ${color(line)}` }, `${line.name} `, read[at])) : [];
    const enlarge = element("button", { type: "button", class: "enlarge", "aria-expanded": "false", title: item.name },
      element("span", { class: "name" }, item.name));
    const words = element("p", {}, keys.length ? element("span", { class: "alone" }, facts, now) : facts, keys.length ? "" : now, ...keys);
    const box = element("div", { class: "cell" }, words);
    /** Rows of the range that is shown. Lines with a band have its edges beside them. */
    function rows() {
      const found = new Map(), columns = lines.flatMap((line) => {
        const name = named({ name: line.name || item.name }, item.unit);
        return [[name, line.x, line.values], ...(line.low.length ? [[`${name} lowest`, line.x, line.low], [`${name} highest`, line.x, line.high]] : [])];
      });
      columns.forEach(([, xs, values], column) => xs.forEach((x, place) => {
        if (!within(cross.range, x)) return;
        if (!found.has(x)) found.set(x, [x, ...columns.map(() => "")]);
        found.get(x)[1 + column] = values[place];
      }));
      return [[data.axis === "step" ? "step" : "time_s", ...columns.map(([name]) => name)], ...[...found.values()].sort((a, b) => a[0] - b[0])];
    }
    box.prepend(element("div", { class: "cell-head" }, enlarge, saves(box, item.name, rows)));
    let large = false, area, move = () => {};
    const at = (x, places = item.x) => {
      let best = 0;
      places.forEach((one, index) => { if (Math.abs(one - x) < Math.abs(places[best] - x)) best = index; });
      return best;
    };
    const inside = (x, places) => x >= places[0] && x <= places[places.length - 1];
    const worth = ({ values, low, high }, place) => quantity(values[place], item.unit) + (known([low[place], high[place]]).length === 2
      ? ` (${data.band ? `by ${data.band} ` : ""}${quantity(low[place], item.unit)} to ${quantity(high[place], item.unit)})` : "");
    /** The step of a point, or the steps that it is the mean of. */
    const stepsOf = (place) => {
      if (item.about) return [`about step ${count(item.x[place])}`, ": "];
      const neighbours = [!item.means ? item.x[place] : place ? item.x[place - 1] + 1 : item.from, item.x[place]];
      const [first, last] = item.ranges ? item.ranges[place] : neighbours;
      if (first === last) return [`step ${count(last)}`, ": "];
      return [first === null || first === undefined ? `steps to ${count(last)}` : `steps ${count(first)}–${count(last)}`, ", mean "];
    };
    const newest = (place) => (item.means && !several && place === item.x.length - 1 && item.facts.length
      ? `, ${item.facts[0].filter(Boolean).join(" ")}` : "");
    cross.charts.add((x) => {
      if (!area) return;
      if (x !== null) words.style.minHeight = `${words.clientHeight}px`; // so that the chart stays in its place
      const place = x === null ? -1 : at(x);
      const pixel = place < 0 ? -1 : area.across(item.x[place]);
      move(pixel < area.left - 1 || pixel > area.right + 1 ? null : pixel);
      facts.hidden = place >= 0;
      const [moment, then] = place < 0 ? [""] : data.axis === "step" ? stepsOf(place) : [seconds(item.x[place]), ": "];
      now.textContent = place < 0 ? moment : several || own ? `${moment}${then.replace(/[: ]+$/, "")} ` : `${moment}${then}${worth(lines[0], place)}${newest(place)}`;
      if (keys.length) read.forEach((one, index) => {
        const line = lines[index], own = line.x === item.x ? place : at(x, line.x);
        one.textContent = place < 0 ? line.whole ?? "" : line.x !== item.x && !inside(x, line.x) ? "" : worth(line, own);
      });
    });

    const spots = (part, line) => part.map(([index, value]) => [area.across(line.x[index]), area.up(value)]);
    const stairs = (points) => points.flatMap(([x, y], at) => (at ? [[x, points[at - 1][1]], [x, y]] : [[x, y]]));
    const drawLine = (line, values, kind) => stretches(values).map((part) => spots(part, line)).forEach((points) =>
      area.inside.append(points.length > 1 ? svg("path", { class: `${kind} ${color(line)}`, d: path(data.held ? stairs(points) : points) })
        : svg("circle", { class: `dot ${color(line)}`, cx: points[0][0], cy: points[0][1], r: 2.5 })));
    function drawBand(line) {
      const both = line.low.map((value, index) => (value === null || line.high[index] === null ? null : value));
      for (const part of stretches(both)) {
        const upper = part.map(([index]) => [index, line.high[index]]).reverse();
        area.inside.append(svg("path", { class: `band ${color(line)}`, d: path(spots([...part, ...upper], line)) + "Z" }));
      }
    }

    let again = () => {};
    function draw() {
      again = responsive(box, (width) => {
        const ticks = Math.max(2, Math.floor(width / (large || data.size === "wide" ? 80 : 64)));
        const [first, last] = cross.range ?? data.domain ?? [item.x[0], item.x[item.x.length - 1]];
        const x = data.axis === "step" ? stepAxis(first, last, ticks, !cross.range) : timeAxis(first, last, ticks);
        words.style.minHeight = "";
        const all = known(lines.flatMap(({ values, low, high }) => [...values, ...low, ...high]));
        const part = lines.flatMap((line) => [line.values, line.low, line.high].flatMap((column) => visible(column, line.x, cross.range, data.held)));
        const shown = part.length ? part : all;
        const log = state.log && shown.every((value) => value > 0) && wantsLog(shown);
        const y = valueAxis(shown.length ? shown : [0], item.unit, { log, fit: true, count: large ? 5 : 3 });
        const height = large ? LARGE : HEIGHTS[data.size ?? ""];
        area = ground(width, height, x, y, item.name, { left: large ? 62 : 54, right: 8, top: 8, bottom: 24, cut: Boolean(cross.range) });
        for (const line of lines) {
          if (line.low.length) drawBand(line);
          const smooth = smooths(line, state);
          drawLine(line, line.values, smooth ? "line raw" : "line");
          if (smooth) drawLine(line, smoothed(line.values, state.weight), "line");
        }
        drawMarks(area, data.marks ?? [], false);
        if (item.x.length) follow(area, item.x, cross, item.name);
        move = hair(area);
        return area.plot;
      });
    }
    enlarge.addEventListener("click", () => {
      large = !large;
      box.classList.toggle("large", large);
      enlarge.setAttribute("aria-expanded", String(large));
      again();
      if (large) box.scrollIntoView({ block: "nearest" });
    });
    return { box, draw, again: () => again() };
  }

  function grid(host, data, shared) {
    const state = data.state ?? { weight: 0, log: false }, cross = shared ?? crosshair(), cells = [];
    if (!state.chosen) state.weight = data.smoothing && data.items.some((item) => item.lines.some(isRough)) ? USUAL : 0;
    cross.draws.add(() => cells.forEach((one) => one.again()));
    if (!shared) rangeBar(cross, ([from, to]) => `Steps ${count(Math.ceil(from))} – ${count(Math.floor(to))}`);
    if (!shared && data.axis_name) address(cross, `steps.${data.axis_name}`);
    const tools = element("div", { class: "tools" }), status = element("span", { class: "soft", role: "status" });
    const groups = new Map();
    for (const item of data.items) groups.set(item.group ?? "", [...(groups.get(item.group ?? "") ?? []), item]);

    const parts = [...groups].map(([name, items]) => {
      const box = element("div", { class: `grid-cells ${data.size ?? ""}` });
      const more = element("button", { type: "button", class: "more" });
      const title = groups.size > 1 ? element("h4", {}, element("span", { class: "name" }, name || "others"), element("small", {}, count(items.length))) : null;
      const part = element("div", { class: "grid-group" }, title, box, more);
      host.append(part);
      const made = new Map();
      let all = false, words = [];
      function renew() {
        const found = items.filter((item) => words.every((word) => item.name.toLowerCase().includes(word)));
        const shown = all ? found : found.slice(0, SHOWN);
        const fresh = [];
        for (const item of shown) if (!made.has(item)) {
          const one = cell(item, data, state, cross);
          made.set(item, one);
          cells.push(one);
          fresh.push(one);
        }
        box.replaceChildren(...shown.map((item) => made.get(item).box));
        fresh.forEach((one) => one.draw());
        more.hidden = shown.length === found.length;
        more.textContent = `Show all ${count(found.length)}`;
        part.hidden = !found.length;
        return found.length;
      }
      more.addEventListener("click", () => { all = true; renew(); });
      addEventListener("beforeprint", () => { all = true; renew(); });
      return { filter: (given) => { words = given; return renew(); }, renew };
    });

    if (data.items.length >= FILTER_FROM) {
      const filter = element("input", { type: "search", placeholder: "Filter by name", "aria-label": `Filter ${data.what}` });
      filter.addEventListener("input", () => {
        const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
        const found = parts.reduce((sum, part) => sum + part.filter(words), 0);
        status.textContent = words.length ? `${count(found)} of ${count(data.items.length)} ${data.what}` : `${count(data.items.length)} ${data.what}`;
      });
      status.textContent = `${count(data.items.length)} ${data.what}`;
      tools.append(filter, status);
    }
    if (data.smoothing) {
      const slider = element("input", { type: "range", min: "0", max: "0.98", step: "0.02", value: String(state.weight) });
      const shown = element("output", {}, state.weight ? state.weight.toFixed(2) : "off");
      slider.addEventListener("input", () => {
        state.weight = Number(slider.value);
        state.chosen = true;
        shown.textContent = state.weight ? state.weight.toFixed(2) : "off";
        tell();
        cells.forEach((one) => one.again());
      });
      tools.append(element("label", {}, "Smoothing ", slider, shown));
      tools.append(element("button", { type: "button", class: "scale", "aria-pressed": String(state.log), title: "Logarithmic values", on: { click: (event) => {
        state.log = !state.log;
        event.currentTarget.setAttribute("aria-pressed", String(state.log));
        cells.forEach((one) => one.again());
      } } }, "log scale"));
    }
    const legend = element("p", { class: "soft strokes" });
    const tell = () => { legend.textContent = strokes(data, state); legend.hidden = !legend.textContent; };
    tell();
    host.prepend(tools, legend);
    tools.hidden = !tools.children.length;
    parts.forEach((part) => part.renew());
  }
  return { grid, smoothed };
})());
