"use strict";
/* Points of a sweep, joined in the order of their parameter: one chart for each figure of class `scatter`.

     {x: {title, unit, ticks?: [[place, text]], numeric?}, y: {title, unit}, what, diagonal?: text, unlabelled?,
      lines: [{name, points: [{label, name, x: [v, low, high], y: [v, low, high], hollow?, verdict?, knee?}]}]} */
(() => {
  const { element, svg, quantity, known, most, least, valueAxis, wantsLog, ground, path, responsive, color, nothing, named, saves } = telemetry;
  const CHAR = 6.6, LOG_FROM = 8, ROOM = 0.06;

  /** An axis whose ticks are the values that were tried. */
  function tried({ ticks, numeric }) {
    const places = ticks.map(([place]) => place), low = least(places), high = most(places);
    const log = numeric && low > 0 && high / low >= LOG_FROM, scale = log ? Math.log : (value) => value;
    const length = scale(high) - scale(low) || 1;
    const place = (value) => ROOM + (1 - 2 * ROOM) * (high > low ? (scale(value) - scale(low)) / length : 0.5);
    return { place, ticks: places, text: (value) => ticks[places.indexOf(value)][1] };
  }

  const differ = ([, low, high]) => known([low, high]).length === 2 && low < high;

  function scatter(host, data) {
    const lines = data.lines.map((line, index) => ({ ...line, index })).filter((line) => line.points.length);
    if (!lines.length) return nothing(host, "No values.");
    const spots = lines.flatMap((line) => line.points.map((point) => ({ ...point, line })));
    const ends = (axis) => known(spots.flatMap((spot) => spot[axis]));
    const hidden = new Set();
    const state = { log: !data.diagonal && wantsLog(ends("y")) };
    const hint = "Move over the points to read them.";
    const readout = element("div", { class: "readout" }, hint);
    const order = [...new Set(spots.map((spot) => spot.name))];
    const value = (spot, axis) => {
      const [middle, low, high] = spot[axis], unit = data[axis].unit;
      const range = differ(spot[axis]) ? ` (${quantity(low, unit)} – ${quantity(high, unit)})` : "";
      return quantity(middle, unit) + range;
    };

    function read(name) {
      const same = spots.filter((spot) => spot.name === name && !hidden.has(spot.line.index));
      if (!same.length) return readout.replaceChildren(hint);
      const across = data.x.ticks ? [] : [`${value(same[0], "x")} ${data.x.title} \u2002`];
      return readout.replaceChildren(element("strong", {}, name), " \u2002", ...across,
        ...same.flatMap((spot) => [element("span", { class: `key ${color(spot.line)}` }, `${spot.line.name} `, element("b", {}, value(spot, "y"))), " "]),
        same[0].verdict ?? "");
    }

    let marked = null;
    const again = responsive(host, (width) => {
      const shown = spots.filter((spot) => !hidden.has(spot.line.index));
      const values = (axis) => known((shown.length ? shown : spots).flatMap((spot) => spot[axis]));
      const ys = data.diagonal ? [...values("y"), ...values("x")] : values("y");
      const x = data.x.ticks ? tried(data.x) : valueAxis(values("x").map((at) => at * 1.04), data.x.unit, { count: width < 480 ? 4 : 7 });
      const title = `${data.y.title} over ${data.x.title}`;
      const area = ground(width, 300, x, valueAxis(ys, data.y.unit, state), title, { left: 66, right: 18, top: 22, bottom: 46 });
      const { plot, across, up } = area;
      plot.append(svg("text", { class: "tick", x: area.left - 58, y: 12 }, data.y.title));
      plot.append(svg("text", { class: "tick", x: area.right, y: area.bottom + 38, "text-anchor": "end" }, data.x.title));
      if (data.diagonal) {
        const end = Math.min(most(values("x")), most(ys)) * 1.04;
        plot.append(svg("path", { class: "mark", d: path([[across(0), up(0)], [across(end), up(end)]]) }, svg("title", {}, data.diagonal)));
      }
      const bars = [], dots = [], labels = [], taken = [];
      for (const line of lines) {
        const own = shown.filter((spot) => spot.line.index === line.index);
        const points = own.map((spot) => [across(spot.x[0]), up(spot.y[0])]);
        if (points.length > 1) plot.append(svg("path", { class: `line ${color(line)}`, d: path(points) }));
        own.forEach((spot, at) => {
          const [cx, cy] = points[at], tone = color(line);
          const bar = (x1, y1, x2, y2) => bars.push(svg("line", { class: `error-bar ${tone}`, x1, y1, x2, y2 }));
          if (differ(spot.y)) bar(cx, up(spot.y[1]), cx, up(spot.y[2]));
          if (differ(spot.x)) bar(across(spot.x[1]), cy, across(spot.x[2]), cy);
          if (spot.knee) dots.push(svg("circle", { class: `knee ${tone}`, cx, cy, r: 9 }));
          dots.push(svg("circle", { class: `spot ${tone}${spot.hollow ? " hollow" : ""}`, cx, cy, r: 4.5 }));
          taken.push([cx - 5, cy - 5, cx + 5, cy + 5]);
        });
      }
      const free = (box) => taken.every(([l, t, r, b]) => box[2] < l || box[0] > r || box[3] < t || box[1] > b);
      if (!data.unlabelled)
        for (const spot of shown.filter((one) => one.line.index === lines[0].index || lines.length > 2)) {
          const cx = across(spot.x[0]), cy = up(spot.y[0]), wide = spot.label.length * CHAR;
          const places = [[cx + 9, cy - 8], [cx - 9 - wide, cy - 8], [cx - wide / 2, cy - 13], [cx + 9, cy + 17], [cx - 9 - wide, cy + 17]];
          const place = places.find(([left, base]) => left >= area.left && left + wide <= width && base > 12 && free([left, base - 10, left + wide, base + 2]));
          if (!place) continue;
          taken.push([place[0], place[1] - 10, place[0] + wide, place[1] + 2]);
          labels.push(svg("text", { class: "spot-label", x: place[0], y: place[1] }, spot.label));
        }
      plot.append(...bars, ...dots, ...labels);

      const move = (name) => { marked = name; read(name); };
      plot.setAttribute("tabindex", "0");
      plot.setAttribute("aria-label", `${title}. Arrow keys read points.`);
      plot.addEventListener("pointermove", (event) => {
        const box = plot.getBoundingClientRect(), scale = width / box.width;
        const far = (spot) => Math.hypot(across(spot.x[0]) - (event.clientX - box.left) * scale, up(spot.y[0]) - (event.clientY - box.top) * scale);
        if (shown.length) move(shown.reduce((best, spot) => (far(spot) < far(best) ? spot : best)).name);
      });
      for (const event of ["pointerleave", "blur"]) plot.addEventListener(event, () => { marked = null; readout.replaceChildren(hint); });
      plot.addEventListener("keydown", (event) => {
        const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!by) return;
        event.preventDefault();
        const at = marked === null ? (by > 0 ? 0 : order.length - 1) : order.indexOf(marked) + by;
        move(order[Math.min(Math.max(at, 0), order.length - 1)]);
      });
      return plot;
    });
    if (lines.length > 1)
      host.append(element("div", { class: "legend" }, ...lines.map((line) => {
        const button = element("button", { type: "button", class: `key ${color(line)}`, "aria-pressed": "true", title: "Show or hide this line",
          on: { click: () => {
            hidden.has(line.index) ? hidden.delete(line.index) : hidden.add(line.index);
            button.setAttribute("aria-pressed", String(!hidden.has(line.index)));
            again();
          } } }, line.name);
        return button;
      })));
    else if (data.diagonal) host.append(element("p", { class: "soft" }, `Dotted line: ${data.diagonal}.`));
    const columns = (axis) => [named({ name: data[axis].title }, data[axis].unit), `${data[axis].title} low`, `${data[axis].title} high`];
    host.append(element("div", { class: "legend" }, saves(host, undefined, () => [["line", "point", ...columns("x"), ...columns("y")],
      ...spots.filter((spot) => !hidden.has(spot.line.index)).map((spot) => [spot.line.name, spot.name, ...spot.x, ...spot.y])])), readout);
  }

  for (const figure of document.querySelectorAll("figure.scatter")) {
    figure.hidden = false;
    scatter(figure.appendChild(element("div")), JSON.parse(figure.querySelector("script").textContent));
  }
  document.documentElement.dataset.drawn = "true"; // for those who wait for it before they print
})();
