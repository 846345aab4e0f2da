// Adds rows to the change ledger as changes happen. Pages can be read without it.
'use strict';

(() => {
  const ledger = document.getElementById('ledger');
  const state = document.getElementById('live');
  if (!ledger || !state || !window.EventSource) return;
  const limit = Number(ledger.dataset.limit);
  let last = Number(ledger.dataset.last);

  const say = (text, tone) => {
    state.textContent = text;
    state.className = 'chip ' + tone;
  };

  // Texts only: whatever a name holds, it stays a text.
  const rowOf = (cells) => {
    const row = document.createElement('tr');
    for (const cell of cells) {
      const place = document.createElement('td');
      place.className = cell.class;
      place.dataset.label = cell.label;
      if (cell.title) place.title = cell.title;
      let inner = place;
      if (cell.chip) {
        inner = place.appendChild(document.createElement('span'));
        inner.className = cell.chip;
      }
      inner.textContent = cell.text;
      row.append(place);
    }
    row.classList.add('new');
    return row;
  };

  const source = new EventSource('events?after=' + last);
  source.onopen = () => say('Live', 'good');
  source.onerror = () => {
    const isOver = source.readyState === EventSource.CLOSED;
    say(isOver ? 'Not live: too many listen' : 'Reconnecting', 'warn');
  };
  source.addEventListener('restart', () => location.reload());
  source.onmessage = (event) => {
    const change = JSON.parse(event.data);
    if (change.number <= last) return;
    last = change.number;
    ledger.prepend(rowOf(change.cells));
    while (ledger.rows.length > limit) ledger.deleteRow(-1);
  };
  addEventListener('pagehide', () => source.close());
})();
