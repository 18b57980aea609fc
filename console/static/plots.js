// The plots of a queue's page: each draws columns of the table of numbers, which is also what readers without a script
// or without sight have. Colors are those of the table's head, so that they suit the page in light and dark.
"use strict";

(() => {
  const drawn = new Map(); // figure → { plot, read }
  const height = 180;

  const count = (v) => (v == null ? "–" : v.toLocaleString());
  const duration = (v) => {
    if (v == null) return "–";
    const [n, unit] = v < 1 ? [v * 1000, "ms"] : [v, "s"];
    return `${Number(n.toPrecision(3)).toLocaleString()} ${unit}`;
  };

  // columns returns the columns of a table, the first one being the times.
  function columns(table, of) {
    const rows = [...table.tBodies[0].rows].filter((row) => row.dataset.partial == null); // it would look like a decline
    const number = (cell) => (cell.dataset.v === "" ? null : Number(cell.dataset.v));
    const times = rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000);
    return [times, ...of.map((i) => rows.map((row) => number(row.cells[i])))];
  }

  function options(figure, table, of) {
    const style = (element, what) => getComputedStyle(element)[what];
    const head = table.tHead.rows[0].cells;
    const write = figure.dataset.unit === "s" ? duration : count;
    const axis = { stroke: style(figure, "color"), grid: { stroke: style(table.tBodies[0].rows[0].cells[1], "borderTopColor"), width: 1 } };
    return {
      width: figure.clientWidth - 16, height,
      cursor: { drag: { x: false, y: false }, sync: { key: "plots" } },
      scales: { y: { range: (u, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis }, { ...axis, size: 62, values: (u, ticks) => ticks.map(write) }],
      series: [
        { label: "At" },
        ...of.map((i) => ({
          label: head[i].textContent.replace(/^(Latency|Run time) /, ""), stroke: style(head[i], "color"), width: 1.5,
          value: (u, v) => write(v), points: { size: 4 },
        })),
      ],
    };
  }

  function draw(figure, region) {
    const table = region.querySelector("table");
    const of = figure.dataset.columns.split(" ").map(Number);
    const before = drawn.get(figure);
    if (before) {
      if (before.read === region.dataset.read) return;
      before.plot.setData(columns(table, of));
      before.read = region.dataset.read;
      return;
    }
    const plot = new uPlot(options(figure, table, of), columns(table, of), figure);
    plot.root.setAttribute("aria-hidden", "true"); // the table has the numbers
    drawn.set(figure, { plot, read: region.dataset.read });
  }

  function drawAll() {
    const region = document.getElementById("numbers");
    for (const [figure, { plot }] of drawn) {
      if (region && figure.isConnected) continue;
      plot.destroy();
      drawn.delete(figure);
    }
    if (!region) return;
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
  new MutationObserver(soon).observe(document.getElementById("main"), { childList: true, subtree: true, attributes: true,
    attributeFilter: ["data-read"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  addEventListener("resize", () => {
    for (const [figure, { plot }] of drawn) plot.setSize({ width: figure.clientWidth - 16, height });
  });
})();
