"use strict";
/* The table of series: rows are made when they are looked at, details when they are asked for. */
telemetry.seriesTable = (place, data, shapes, time) => {
  const { element, svg, count, numberOf, quantity, known, least, most, stretches, path, arrange } = telemetry;
  const FIRST = 12, CHUNK = 100; // rows at first, so that the charts below are near, and rows of each further part

  /** Where percentiles begin among the columns: after name, count and mean. */
  const first = { percentiles: 3 };
  const sorting = { column: -1, down: true };
  let words = [], shown = [], made = 0, opened = false, table, body, heads, counter, sentinel;

  const matches = (one) => words.every((word) => one.name.toLowerCase().includes(word));

  function order(a, b) {
    if (sorting.column < 0) return 0;
    const sign = sorting.down ? -1 : 1;
    if (sorting.column === 0) return sign * (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
    const [left, right] = [a.values[sorting.column], b.values[sorting.column]];
    if (left === null || right === null) return (left === null) - (right === null); // nothing comes last
    return sign * (left - right);
  }

  function renew() {
    shown = data.series.filter(matches).sort(order);
    made = 0;
    body.replaceChildren();
    const all = data.series.length;
    counter.textContent = shown.length === all ? `${count(all)} series` : `${count(shown.length)} of ${count(all)} series`;
    heads.forEach((head, index) => {
      const own = index === sorting.column;
      head.setAttribute("aria-sort", own ? (sorting.down ? "descending" : "ascending") : "none");
    });
    more();
  }

  /** The next rows; all of them with `everything`. */
  function more(everything = false) {
    const next = made + (opened ? CHUNK : FIRST), end = everything || next + 1 >= shown.length ? shown.length : next;
    body.append(...shown.slice(made, end).map(row));
    arrange(table);
    made = end;
    sentinel.hidden = made >= shown.length;
    sentinel.textContent = `${count(shown.length - made)} more series`;
  }

  function cell(one, text, index) {
    const bounds = one.bounds[index - first.percentiles];
    if (!bounds) return element("td", {}, text);
    const [, , beyond, within, few] = bounds;
    const title = few ? `Rests on too few values: ${numberOf(beyond, "lies", "lie")} beyond.`
      : `With ${data.confidence} confidence within ${within}; ${numberOf(beyond, "value lies", "values lie")} beyond.`;
    return element("td", { title, class: few ? "few" : undefined }, text, element("small", {}, within));
  }

  /** Long names are broken after their punctuation. */
  const broken = (name) => name.split(/(?<=[{,=/])/).flatMap((part, at) => at ? [element("wbr"), part] : [part]);

  function row(one) {
    const name = element("button", { type: "button", class: "open", "aria-expanded": "false" }, ...broken(one.name));
    const cells = one.cells.map((text, index) => cell(one, text, index + 1));
    const line = element("tr", {}, element("th", { scope: "row" }, name), ...cells,
      data.times.length ? element("td", { class: "spark" }, spark(one)) : null);
    let details = null;
    name.addEventListener("click", () => {
      const open = name.getAttribute("aria-expanded") !== "true";
      name.setAttribute("aria-expanded", String(open));
      if (open && !details) {
        const inside = element("td", { colspan: line.children.length, class: "inside" });
        details = element("tr", { class: "details" }, inside);
        line.after(details);
        detail(inside, one);
      } else if (details) details.hidden = !open;
    });
    return line;
  }

  /** p99 over time, as small as a word. */
  function spark(one) {
    if (!one.over) return "";
    const key = "99" in one.over.percentiles ? "99" : Object.keys(one.over.percentiles).at(-1);
    const values = one.over.percentiles[key] ?? one.over.max, drawn = known(values);
    if (drawn.length < 2) return "";
    const low = least(drawn), high = most(drawn);
    const spot = ([at, value]) => [(at / (values.length - 1)) * 96 + 2, 20 - ((value - low) / (high - low || 1)) * 16];
    const title = `p${key} from ${quantity(low, one.unit)} to ${quantity(high, one.unit)}`;
    return svg("svg", { viewBox: "0 0 100 24", width: 100, height: 24, role: "img", "aria-label": title },
      svg("title", {}, title),
      svg("path", { class: "line c0", d: stretches(values).map((part) => path(part.map(spot))).join("") }));
  }

  function detail(inside, one) {
    const box = (title, draw, wide = false) => {
      const part = element("div", { class: wide ? "wide" : undefined }, title ? element("h3", {}, title) : null);
      inside.firstChild.append(part);
      draw(part);
    };
    inside.append(element("div", { class: "detail" }));
    if (one.facts.length) inside.firstChild.append(element("p", { class: "wide soft" }, one.facts.join(" · ")));
    const line = shapes.percentileLine(one), shaded = line?.bounds.length ? `, shaded: ${data.confidence} bounds` : "";
    box(`Percentiles${shaded}`, (host) => shapes.drawPercentiles(host, [line], one.unit, one.name));
    box("Distribution", (host) => shapes.drawDistribution(host, one));
    if (!one.over) return;
    const [start, end] = data.times[one.over.times];
    const lines = Object.entries(one.over.percentiles).map(([key, values]) => ({ name: `p${key}`, values }));
    lines.push({ name: "max", values: one.over.max });
    const title = `Over time, in steps of ${telemetry.durationNs(data.step_s * 1e9)}`;
    box("", (host) => telemetry.overTime(host, { title, unit: one.unit, start, end, lines }, time), true);
  }

  counter = element("span", { class: "soft", role: "status" });
  const filter = element("input", { type: "search", placeholder: "Filter by name or label", "aria-label": "Filter series" });
  filter.addEventListener("input", () => {
    words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    renew();
  });
  heads = data.columns.map((title, index) => {
    const head = element("th", { scope: "col", "aria-sort": "none" });
    head.append(element("button", { type: "button", class: "sort", title: "Sort by this", on: { click: () => {
      sorting.down = sorting.column === index ? !sorting.down : index > 0;
      sorting.column = index;
      renew();
    } } }, title));
    return head;
  });
  const over = data.times.length ? element("th", { scope: "col" }, "over time") : null;
  body = element("tbody");
  sentinel = element("button", { type: "button", class: "more", on: { click: () => { opened = true; more(); } } });
  table = element("table", { class: "series" }, element("thead", {}, element("tr", {}, ...heads, over)), body);
  place.append(
    element("div", { class: "tools" }, filter, element("span", {}, counter, telemetry.help(data.help))),
    element("div", { class: "scroll" }, table),
    sentinel);
  renew();
  new IntersectionObserver((seen) => seen.some((one) => one.isIntersecting) && opened && !sentinel.hidden && more()).observe(sentinel);
  addEventListener("beforeprint", () => more(true));
};
