"use strict";
// The script shows times in the zone of the browser, takes the updates of the page, and draws the charts of the life of a
// crawl. Without it, the pages show the same when they are loaded again.
(() => {
  const still = document.getElementById("still"), state = document.getElementById("stream");
  const zone = root => {
    for (const at of root.querySelectorAll("time:not([data-local])")) {
      const date = new Date(at.dateTime), today = date.toDateString() === new Date().toDateString();
      at.textContent = today ? date.toLocaleTimeString() : date.toLocaleString();
      at.dataset.local = "";
    }
  };
  zone(document);

  // Updates: one stream, closed while the page is hidden or the person has paused them. A part is not replaced while the
  // person has the focus, or a selection, in it.
  let source, lastId = "";
  const waiting = new Map();
  const paused = () => localStorage.getItem("still") === "yes";
  const busy = part => part.contains(document.activeElement) && document.activeElement !== part ||
    (sel => sel && !sel.isCollapsed && part.contains(sel.anchorNode))(getSelection());
  const put = (id, html) => {
    const part = document.querySelector(`[data-live="${CSS.escape(id)}"]`);
    if (!part) return;
    if (busy(part)) { waiting.set(id, html); return; }
    waiting.delete(id);
    const open = [...part.querySelectorAll("details")].map(d => d.open), left = part.querySelector(".scroll")?.scrollLeft;
    part.innerHTML = html;
    part.querySelectorAll("details").forEach((d, i) => { d.open = open[i]; });
    if (left) part.querySelector(".scroll").scrollLeft = left;
    zone(part);
  };
  const close = words => { source?.close(); source = undefined; state.textContent = words; };
  const connect = () => {
    const live = document.querySelector("[data-live]") && !document.hidden && !paused();
    still.hidden = !document.querySelector("[data-live]");
    still.textContent = paused() ? "Resume updates" : "Pause updates";
    if (!live) { close(paused() ? "updates are paused" : document.querySelector("[data-live]") ? "" : "this page does not change"); return; }
    if (source) return;
    source = new EventSource(location.href);
    source.onopen = () => { state.textContent = "live"; };
    source.onerror = () => { state.textContent = "the server does not answer; trying again"; };
    source.addEventListener("part", event => {
      state.textContent = "live";
      lastId = event.lastEventId;
      const { id, html } = JSON.parse(event.data);
      put(id, html);
    });
    source.addEventListener("fault", event => { state.textContent = event.data; });
    source.addEventListener("end", () => { close("the login has ended"); location.reload(); });
  };
  still.addEventListener("click", () => { localStorage.setItem("still", paused() ? "no" : "yes"); connect(); });
  addEventListener("storage", connect);
  document.addEventListener("visibilitychange", connect);
  addEventListener("pagehide", () => close(""));
  addEventListener("pageshow", connect);
  setInterval(() => { for (const [id, html] of waiting) put(id, html); }, 500);

  // Charts.
  const box = document.querySelector("[data-timeline]");
  if (!box) return;
  const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const bytes = v => v == null ? "" : v < 1024 ? v.toFixed(0) + " B" : v < 1048576 ? (v / 1024).toFixed(1) + " KiB" : (v / 1048576).toFixed(1) + " MiB";
  const plain = v => v == null ? "" : v.toLocaleString(undefined, { maximumFractionDigits: 2 });
  const kinds = {
    pages: { lines: ["pages"], names: ["pages/s"], words: plain },
    bytes: { lines: ["bytes"], names: ["bytes/s"], words: bytes },
    urls: { lines: ["finished", "waiting"], names: ["finished", "waiting"], words: plain },
  };
  const charts = {};
  const draw = data => {
    if (!data.time || data.time.length < 2) return;
    for (const figure of box.querySelectorAll("[data-chart]")) {
      const name = figure.dataset.chart, kind = kinds[name], rows = [data.time, ...kind.lines.map(line => data[line])];
      if (charts[name]) { charts[name].setData(rows); continue; }
      figure.querySelector("svg")?.remove();
      const axis = { stroke: style("--soft"), grid: { stroke: style("--track"), width: 1 }, ticks: { stroke: style("--track") } };
      charts[name] = new uPlot({
        width: figure.clientWidth, height: 180,
        series: [{}, ...kind.names.map((label, i) => ({ label, stroke: style(i ? "--bad" : "--fill"), width: 1.5, dash: i ? [6, 3] : [], value: (_, v) => kind.words(v) }))],
        axes: [axis, { ...axis, size: 74, values: (_, all) => all.map(kind.words) }],
        scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.05 : 1] } },
      }, rows, figure);
    }
  };
  const load = () => {
    if (document.hidden || paused() && Object.keys(charts).length) return;
    fetch(box.dataset.timeline).then(answer => answer.ok ? answer.json() : {}).then(draw, () => {});
  };
  load();
  setInterval(() => { if (!Object.keys(charts).length) load(); }, 2000);
  setInterval(load, 10000);
  addEventListener("resize", () => { for (const chart of Object.values(charts)) chart.setSize({ width: chart.root.parentNode.clientWidth, height: 180 }); });
})();
