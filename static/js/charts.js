// The common ground of all charts: colours from the tokens, number texts, base options, and the crosshair that charts share.
const { Chart } = window;

const probe = document.createElement("span");
probe.hidden = true;
document.documentElement.append(probe);

// A token as the colour it has in the present theme.
export function colour(name) {
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

// The same colour, clearer: `share` from 0 to 1.
export function clear(rgb, share) {
  const parts = rgb.match(/[\d.]+/g).slice(0, 3);
  return `rgba(${parts.join(", ")}, ${share})`;
}

const LANGUAGE = document.documentElement.lang || undefined;
const THREE_DIGITS = new Intl.NumberFormat(LANGUAGE, { maximumSignificantDigits: 3 });
const WHOLE = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 0 });

// Three significant digits; no data is a dash, never 0.
export function numberText(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "—";
  return Math.abs(value) >= 1000 ? WHOLE.format(value) : THREE_DIGITS.format(value);
}

// "90" seconds is "1:30", an hour more "1:00:00".
export function clockText(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const pad = (n) => String(n).padStart(2, "0");
  return h ? `${h}:${pad(m)}:${pad(s)}` : `${m}:${pad(s)}`;
}

// A logarithmic axis labels 1, 2 and 5 of each decade; a linear one what Chart.js chose.
export function tickText(value) {
  if (this.type === "logarithmic" && ![1, 2, 5].includes(Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9)))) return "";
  return numberText(value);
}

export function baseOptions(xTitle, xText = tickText) {
  const axis = (title, callback) => ({
    type: "linear",
    title: { display: Boolean(title), text: title, color: colour("ink-soft") },
    grid: { color: colour("chart-grid") },
    border: { color: colour("line") },
    ticks: { color: colour("ink-soft"), callback, maxRotation: 0, autoSkipPadding: 14 },
  });
  return {
    animation: false,
    responsive: true,
    maintainAspectRatio: false,
    normalized: true,
    font: { family: getComputedStyle(document.body).fontFamily },
    interaction: { mode: "nearest", axis: "x", intersect: false },
    scales: { x: axis(xTitle, xText), y: { ...axis("", tickText), beginAtZero: true, grace: "8%" } },
    plugins: {
      legend: { display: false },
      annotation: { annotations: {} },
      tooltip: {
        backgroundColor: colour("surface-raised"),
        titleColor: colour("ink"),
        bodyColor: colour("ink-soft"),
        borderColor: colour("line-strong"),
        borderWidth: 1,
        padding: 10,
        usePointStyle: true,
        boxPadding: 4,
      },
      zoom: { zoom: { drag: { enabled: true, backgroundColor: colour("chart-band") }, mode: "x" } },
    },
  };
}

// Charts of one group show the same place: hover shows it, a click pins it. `plugin` goes into each chart's config.
export function makeCrosshair() {
  const charts = new Set();
  const place = { x: null, pinned: false };
  const move = (x) => {
    place.x = x;
    charts.forEach((chart) => chart.draw());
  };
  const drawLine = (chart) => {
    if (place.x === null) return;
    const x = chart.scales.x.getPixelForValue(place.x);
    const { top, bottom, left, right } = chart.chartArea;
    if (x < left || x > right) return;
    const { ctx } = chart;
    ctx.save();
    ctx.strokeStyle = colour("ink-faint");
    ctx.setLineDash(place.pinned ? [] : [3, 3]);
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, bottom);
    ctx.stroke();
    ctx.restore();
  };
  const listen = (chart, { event, native }) => {
    const x = chart.scales.x?.getValueForPixel(event.x);
    if (native?.type === "click") place.pinned = !place.pinned;
    else if (place.pinned) return;
    move(native?.type === "mouseout" ? null : x);
  };
  return {
    plugin: {
      id: "crosshair",
      afterInit: (chart) => charts.add(chart),
      afterDestroy: (chart) => charts.delete(chart),
      afterDatasetsDraw: drawLine,
      afterEvent: (chart, { event }) => listen(chart, { event, native: event.native }),
    },
  };
}

export function makeChart(canvas, config) {
  const chart = new Chart(canvas, config);
  canvas.addEventListener("dblclick", () => chart.resetZoom());
  return chart;
}

// What has to be drawn anew when the theme changes or the page is printed.
export function onThemeChange(redraw) {
  document.addEventListener("theme-changed", redraw);
}
