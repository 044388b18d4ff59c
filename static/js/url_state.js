// The state of the view in the address, so that a link shows what its sender saw.
export function readState(defaults) {
  const query = new URLSearchParams(location.search);
  return Object.fromEntries(Object.entries(defaults).map(([name, value]) => [name, query.get(name) ?? value]));
}

// What differs from `defaults` is written; the rest of the query stays.
export function writeState(state, defaults) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(state)) {
    if (value === defaults[name]) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString().replaceAll("%2C", ",");
  history.replaceState(history.state, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`);
}
