// The PNG and CSV buttons: what is on the screen as a file.
import { colour } from "./charts.js";
import { csvText, tableRows } from "./csv.js";

const PAD = 16;
const TITLE_HEIGHT = 30;

function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function fileName(title, ending) {
  const page = document.querySelector("h1").textContent;
  const clean = `brimline ${page} ${title}`.toLowerCase().replace(/[^\p{Letter}\p{Number}]+/gu, "-");
  return `${clean.slice(0, 100).replace(/^-|-$/g, "")}.${ending}`;
}

export function savePng(canvas, title) {
  const ratio = canvas.width / canvas.clientWidth;
  const image = document.createElement("canvas");
  image.width = canvas.width + 2 * PAD * ratio;
  image.height = canvas.height + (PAD + TITLE_HEIGHT) * ratio;
  const draw = image.getContext("2d");
  draw.fillStyle = colour("surface");
  draw.fillRect(0, 0, image.width, image.height);
  draw.fillStyle = colour("ink");
  draw.font = `600 ${14 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
  const simulated = document.querySelector(".run-head .badge--simulated") ? " (simulated)" : "";
  draw.fillText(`${title} · ${document.querySelector("h1").textContent}${simulated}`, PAD * ratio, 22 * ratio);
  draw.drawImage(canvas, PAD * ratio, TITLE_HEIGHT * ratio);
  image.toBlob((blob) => save(blob, fileName(title, "png")), "image/png");
}

export function saveCsv(rows, title) {
  // The mark tells spreadsheets that this is UTF-8.
  save(new Blob(["\ufeff", csvText(rows)], { type: "text/csv;charset=utf-8" }), fileName(title, "csv"));
}

// The buttons of one chart; `rows` gives what the CSV holds, header first.
export function bindChartTools(canvas, rows) {
  const figure = canvas.closest(".chart");
  const title = figure.querySelector(".chart__title").textContent;
  figure.querySelector("[data-png]").addEventListener("click", () => savePng(canvas, title));
  figure.querySelector("[data-csv]").addEventListener("click", () => saveCsv(rows(), title));
}

export function bindTableButtons() {
  for (const button of document.querySelectorAll("button[data-csv]:not(.chart *)")) {
    const table = document.querySelector(button.dataset.csv);
    const title = button.closest("section").querySelector("h2").textContent;
    button.addEventListener("click", () => saveCsv(tableRows(table), title));
  }
}
