// Charts over time that grow while a run runs: stage bands behind, a gap where nothing was recorded, one crosshair.
import { bindChartTools } from "./chart_export.js";
import { baseOptions, clear, clockText, colour, makeChart, makeCrosshair, numberText, onThemeChange } from "./charts.js";

const COLOURS = { in_flight: "chart-in-flight", output_tokens_per_s: "chart-throughput", ttft_ms_p50: "chart-ttft", tpot_ms_p50: "chart-tpot" };
// The generator speaks once a second: after a longer silence nothing was recorded.
const GAP_S = 3;
const TABLE_EVERY_S = 60;

export function makeTimeline(root) {
  const canvases = [...root.querySelectorAll("canvas[data-series]")];
  const points = Object.fromEntries(canvases.map((canvas) => [canvas.dataset.series, []]));
  let stages = [];
  let lastTime = null;
  let charts = [];
  const crosshair = makeCrosshair();
  let nextRow = 0;

  const draw = () => {
    charts.forEach((chart) => chart.destroy());
    charts = canvases.map((canvas) => timeChart(canvas, points[canvas.dataset.series], crosshair));
    showStages();
  };
  const showStages = () => charts.forEach((chart) => { chart.options.plugins.annotation.annotations = stageBands(stages); chart.update("none"); });

  canvases.forEach((canvas) => bindChartTools(canvas, () => [["t_s", canvas.dataset.series], ...points[canvas.dataset.series].filter((point) => point.y !== null || point.x === null).map((point) => [point.x, point.y])]));
  onThemeChange(draw);
  draw();

  return {
    add(answer) {
      const { columns, rows } = answer.ticks;
      for (const row of rows) {
        const time = row[0];
        for (const [series, list] of Object.entries(points)) {
          if (lastTime !== null && time - lastTime > GAP_S) list.push({ x: (lastTime + time) / 2, y: null });
          list.push({ x: time, y: row[columns.indexOf(series)] ?? null });
        }
        lastTime = time;
        if (time >= nextRow) {
          addTableRow(root.querySelector("[data-time-table] tbody"), columns, row);
          nextRow = (Math.floor(time / TABLE_EVERY_S) + 1) * TABLE_EVERY_S;
        }
      }
      const begun = answer.stages.filter((stage) => stage.start_s !== null);
      const isNew = JSON.stringify(begun) !== JSON.stringify(stages);
      stages = begun;
      if (isNew || rows.length) showStages();
    },
  };
}

function timeChart(canvas, data, crosshair) {
  const hue = colour(COLOURS[canvas.dataset.series]);
  const options = baseOptions("", (value) => clockText(value));
  options.interaction.mode = "index";
  options.scales.y.grace = "18%";
  options.plugins.tooltip.callbacks = { title: (items) => clockText(items[0].parsed.x), label: (item) => ` ${numberText(item.parsed.y)}` };
  const dataset = { data, borderColor: hue, backgroundColor: clear(hue, 0.12), borderWidth: 1.5, pointRadius: alone, pointHoverRadius: 4, spanGaps: false, fill: canvas.dataset.series === "in_flight", stepped: canvas.dataset.series === "in_flight" };
  return makeChart(canvas, { type: "line", data: { datasets: [dataset] }, options: { ...options, parsing: false }, plugins: [crosshair.plugin] });
}

// A second between two gaps has no line: it is a dot.
function alone({ dataIndex, dataset }) {
  const isGap = (n) => (dataset.data[n]?.y ?? null) === null;
  return isGap(dataIndex - 1) && isGap(dataIndex + 1) ? 1.8 : 0;
}

function stageBands(stages) {
  return Object.fromEntries(
    stages.map((stage, n) => [
      `stage-${n}`,
      {
        type: "box",
        xMin: stage.start_s,
        xMax: stage.end_s ?? undefined,
        backgroundColor: n % 2 ? "transparent" : colour("chart-band"),
        borderWidth: 0,
        drawTime: "beforeDatasetsDraw",
        label: { display: true, content: String(stage.concurrency), position: { x: "start", y: "start" }, color: colour("ink-faint"), font: { size: 10, weight: 600 }, padding: 2 },
      },
    ]),
  );
}

function addTableRow(body, columns, row) {
  const line = body.insertRow();
  for (const name of ["t_s", "in_flight", "output_tokens_per_s", "ttft_ms_p50", "tpot_ms_p50"]) {
    const cell = line.insertCell();
    const value = row[columns.indexOf(name)];
    cell.className = "n";
    cell.textContent = name === "t_s" ? clockText(value) : numberText(value);
  }
}
