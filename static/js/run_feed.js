// Asks the site, again and again, what came since the last answer: the one place that knows the cursor.
const EVERY_MS = 1000;
const SLOWEST_MS = 15_000;

// `onAnswer` gets every answer; `onEnd` is called once when the run is over and all of it was read; `onLost` and
// `onFound` when the site stops and starts to answer.
export function followRun(url, { onAnswer, onEnd, onLost = () => {}, onFound = () => {} }) {
  const cursor = { tick: 0, event: 0 };
  let wait = EVERY_MS;
  let isLost = false;

  const ask = async () => {
    try {
      const response = await fetch(`${url}?${new URLSearchParams(cursor)}`, { headers: { Accept: "application/json" }, cache: "no-store" });
      if (response.redirected) return location.reload();
      if (!response.ok) throw new Error(`status ${response.status}`);
      const answer = await response.json();
      Object.assign(cursor, answer.cursor);
      wait = EVERY_MS;
      if (isLost) onFound();
      isLost = false;
      onAnswer(answer);
      if (answer.more) return ask();
      if (answer.is_over) return onEnd(answer);
    } catch (error) {
      if (!isLost) onLost(error);
      isLost = true;
      wait = Math.min(SLOWEST_MS, wait * 2);
    }
    setTimeout(ask, wait);
  };
  ask();
}
