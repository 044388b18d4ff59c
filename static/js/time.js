// Times in the reader's zone; the server wrote UTC, which stays in the title.
const FORMAT = new Intl.DateTimeFormat(document.documentElement.lang || undefined, { dateStyle: "medium", timeStyle: "short" });
const FORMAT_SECONDS = new Intl.DateTimeFormat(document.documentElement.lang || undefined, { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat(document.documentElement.lang || undefined, { timeStyle: "medium" });

export function localiseTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]:not([data-local])")) {
    const when = new Date(element.dateTime);
    if (Number.isNaN(when.getTime())) continue;
    element.textContent = ("seconds" in element.dataset ? FORMAT_SECONDS : FORMAT).format(when);
    element.dataset.local = "yes";
  }
}

export function clockTime(iso) {
  return CLOCK.format(new Date(iso));
}

// "0.5 s", "45 s", "12 min", "2 h 05 min", as the server writes durations; no data is a dash.
export function durationWords(seconds) {
  if (seconds === null || seconds === undefined) return "—";
  if (seconds < 9.95) return `${Number(seconds.toPrecision(2))} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}
