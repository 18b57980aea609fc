// The plots of a queue's page: each draws columns of the table of numbers, which is also what readers without a script
// or without sight have. The head of a column names its line: the color of the style sheet, and a pattern of dashes.
"use strict";

(() => {
  const drawn = new Map(); // figure → { plot, read }
  const height = 180;
  const dashes = { in: [6, 3], out: [], bad: [2, 3], poison: [8, 3, 2, 3], wait: [] };
  const borders = { in: "dashed", bad: "dotted", poison: "dashed" }; // of the marks in the legend

  const count = (v) => (v == null ? "–" : v.toLocaleString("en"));
  const duration = (v) => {
    if (v == null) return "–";
    const [n, unit] = v < 1 ? [v * 1000, "ms"] : [v, "s"];
    return `${Number(n.toPrecision(3)).toLocaleString("en")} ${unit}`;
  };

  // times writes the ticks of the time axis by a clock of 24 hours, in the time zone of the page.
  const zone = document.documentElement.dataset.times === "utc" ? "UTC" : undefined;
  const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: zone });
  const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: zone });
  const times = (u, ticks) => ticks.map((t, i) => {
    const at = new Date(t * 1000), text = clock.format(at);
    return text === "00:00" || (i > 0 && t - ticks[i - 1] >= 86400) ? day.format(at) : text;
  });

  // A legend has the values at the cursor or, without one, the last.
  const moment = (t) => (t == null ? "–" : `${day.format(t * 1000)}, ${clock.format(t * 1000)}`);

  // columns returns the columns of a table, the first one being the times.
  function columns(table, of) {
    // A period that has not ended would look like a decline.
    const rows = [...table.tBodies[0].rows].filter((row) => row.dataset.partial == null);
    const number = (cell) => (cell.dataset.v === "" ? null : Number(cell.dataset.v));
    const at = rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000);
    return [at, ...of.map((i) => rows.map((row) => number(row.cells[i])))];
  }

  // shade returns the color below a line that is solid.
  const shade = (line, color) => (dashes[line].length === 0 && color.startsWith("#") ? `${color}1c` : undefined);

  // drawMarks draws a line at the time of each change that the page lists.
  function drawMarks(u, color) {
    const { ctx, bbox } = u, { min, max } = u.scales.x;
    ctx.save();
    ctx.strokeStyle = color;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.beginPath();
    for (const time of document.querySelectorAll("#marks time")) {
      let at = Date.parse(time.dateTime) / 1000;
      if (max >= u.data[0].at(-1)) at = Math.min(at, max); // in the period that has not ended
      if (at < min || at > max) continue;
      const x = Math.round(u.valToPos(at, "x", true));
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
    }
    ctx.stroke();
    ctx.restore();
  }

  // room is how wide the labels of the y axis are, with their ticks.
  function room(u, labels) {
    u.ctx.font = u.axes[1].font[0];
    const widths = (labels ?? []).map((label) => u.ctx.measureText(label).width / devicePixelRatio);
    return Math.ceil(Math.max(28, ...widths)) + 18;
  }

  // The part of the time that all plots show is in the address, so that a link leads to it.
  let zoom = /^(\d+)-(\d+)$/.exec(new URLSearchParams(location.search).get("zoom") ?? "")?.slice(1).map(Number);
  const within = (part, at) => part && part[0] < part[1] && part[0] < at.at(-1) && part[1] > at[0];
  function keep(u, key) {
    const { min, max } = u.scales.x, at = u.data?.[0];
    if (key !== "x" || min == null || !(at?.length > 1)) return;
    zoom = min <= at[0] && max >= at.at(-1) ? undefined : [Math.round(min), Math.round(max)];
    const url = new URL(location.href);
    if (zoom) url.searchParams.set("zoom", zoom.join("-"));
    else url.searchParams.delete("zoom");
    if (url.href !== location.href) history.replaceState(history.state, "", url);
  }

  function options(figure, table, of) {
    const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const head = table.tHead.rows[0].cells;
    const write = figure.dataset.unit === "s" ? duration : count;
    const axis = { stroke: token("--muted"), grid: { stroke: token("--line"), width: 1 } };
    return {
      width: figure.clientWidth, height,
      cursor: { drag: { x: true, y: false, dist: 8 }, sync: { key: "plots" } }, // a double click shows all again
      legend: { markers: { dash: (u, i) => borders[head[of[i - 1]]?.dataset.line] ?? "solid" } },
      hooks: { drawAxes: [(u) => drawMarks(u, token("--muted"))], setScale: [keep] },
      scales: { y: { range: (u, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, size: 36, values: times }, { ...axis, size: room, values: (u, ticks) => ticks.map(write) }],
      series: [
        { label: "At", value: (u, t, s, i) => moment(i == null ? u.data?.[0]?.at(-1) : t) },
        ...of.map((i) => {
          const { line } = head[i].dataset, color = token(`--plot-${line}`);
          return {
            label: head[i].textContent.replace(/^(Latency|Run time) /, ""),
            stroke: color, fill: shade(line, color), dash: dashes[line], width: 1.75,
            value: (u, v, s, i) => write(i == null ? u.data?.[s]?.at(-1) : v), points: { size: 4 },
          };
        }),
      ],
    };
  }

  function draw(figure, region) {
    const table = region.querySelector("table");
    const of = figure.dataset.columns.split(" ").map(Number);
    const before = drawn.get(figure);
    if (before) {
      if (before.read === region.dataset.read) return;
      const { plot } = before, { min, max } = plot.scales.x, [shown] = plot.data;
      const whole = min <= shown[0] && max >= shown.at(-1);
      plot.setData(columns(table, of), whole); // a part that someone looks at stays
      if (!whole) { plot.redraw(); plot.setLegend(); }
      before.read = region.dataset.read;
      return;
    }
    const plot = new uPlot(options(figure, table, of), columns(table, of), figure);
    if (within(zoom, plot.data[0])) plot.setScale("x", { min: zoom[0], max: zoom[1] });
    plot.root.setAttribute("aria-hidden", "true"); // the table has the numbers
    drawn.set(figure, { plot, read: region.dataset.read });
  }

  const folded = new WeakSet(); // tables that the plots have replaced
  function drawAll() {
    const region = document.getElementById("numbers");
    for (const [figure, { plot }] of drawn) {
      if (region && figure.isConnected) continue;
      plot.destroy();
      drawn.delete(figure);
    }
    if (!region) return;
    const fold = region.closest("[data-fold]");
    if (fold && !folded.has(fold)) { folded.add(fold); fold.open = false; }
    for (const figure of document.querySelectorAll("figure.plot")) draw(figure, region);
  }

  function again() {
    for (const { plot } of drawn.values()) plot.destroy();
    drawn.clear();
    drawAll();
  }

  let pending = false;
  function soon() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; drawAll(); });
  }

  drawAll();
  new MutationObserver(soon).observe(document.getElementById("main"), {
    childList: true, subtree: true, attributes: true, attributeFilter: ["data-read"],
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  addEventListener("resize", () => {
    for (const [figure, { plot }] of drawn) plot.setSize({ width: figure.clientWidth, height });
  });
})();
