// The page: a list of streams, and the one that is followed. Which one that is
// stands in the address, so that a reload or a second tab goes on with it.

import { RillkeepError, follow } from '/web/client/rillkeep.js';
import * as api from '/web/api.js';
import { Cluster } from '/web/cluster.js';
import { Announcer, TextView } from '/web/view.js';

const POLL = 2000; // ms between looks at what is live
const RECENT_EVERY = 5; // looks at the rest for one of those
const SLOWEST = 30000; // ms, when the node does not answer
const RECENT = 12;

const STATUS = {
  streaming: 'Streaming', complete: 'Complete', cancelled: 'Cancelled', error: 'Failed', interrupted: 'Interrupted',
  pending: 'Pending',
};

const $ = (id) => document.getElementById(id);
const count = new Intl.NumberFormat('en');
const view = new TextView($('text'));
const announcer = new Announcer($('announcer'));
const cluster = new Cluster($('cluster'), { onChange: () => streams.size && list(), onProblem: (problem) => notice(api.words(problem)) });

// The stream that is followed.

let reader = null;
let selected = '';
let last = null; // its last state
let replay = 0; // where it was when it was joined

function selection() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return '';
  }
}

function select() {
  const id = selection();
  if (id === selected && reader) return;
  reader?.close();
  reader = null;
  last = null;
  selected = id;
  $('empty').hidden = id !== '';
  $('stream').hidden = id === '';
  document.title = id ? `${id} · Rillkeep` : 'Rillkeep';
  mark();
  if (!id) return;
  $('stream-id').textContent = id;
  $('curl').textContent = api.curl(id);
  $('cancel').disabled = false;
  house($('home'), streams.get(id));
  announcer.begin('');
  reader = follow({ streamId: id, plane: 'live', source: 'eventsource', token: api.currentToken, onChange: render });
  render(reader.state);
}

function render(state) {
  const before = last;
  last = state;
  view.show(state.text);
  figure('produced', state.produced);
  figure('durable', state.durable);
  figure('between', Math.max(0, state.produced - state.durable));
  const share = state.produced ? Math.min(1, state.durable / state.produced) : 0;
  $('bar').style.transform = `scaleX(${share})`;

  const streaming = state.status === 'streaming';
  $('stream').dataset.live = String(streaming && state.link !== 'closed');
  const badge = state.problem && state.link === 'closed' ? 'No stream' : STATUS[state.status] ?? 'Connecting';
  $('status').textContent = badge;
  $('status').dataset.status = state.status;
  $('cancel').hidden = !streaming;
  $('link').textContent = linkWords(state);
  if (state.problem?.status === 401) askForToken();

  announce(state, before, badge);
}

// announce reads out news and what the text grows by; not the replay before it.
function announce(state, before, badge) {
  const news = `${badge}. ${linkWords(state)}`;
  if (!before?.status) replay = state.produced;
  if (state.text.length <= replay) announcer.begin(state.text);
  else announcer.follow(state.text);
  if (state.status && state.status !== before?.status) {
    if (state.status === 'streaming') announcer.say(news);
    else announcer.end(state.text, news);
  } else if (state.problem && state.problem !== before?.problem) {
    announcer.say(news);
  }
}

function figure(id, value) {
  $(id).value = value;
  $(id).textContent = count.format(value);
}

function linkWords(state) {
  const lost = state.text.length - state.durable;
  switch (state.status) {
    case 'complete': return 'The whole text is durable.';
    case 'cancelled': return 'Cancelled on request. What was produced until then is durable.';
    case 'error': return `The producer failed${state.error ? `: ${state.error}` : '.'}`;
    case 'interrupted':
      return lost > 0
        ? `The producer was lost. The last ${count.format(lost)} units above were not kept.`
        : 'The producer was lost. Everything above is durable.';
  }
  if (state.problem) return api.words(state.problem) + (state.link === 'closed' ? '' : ' Trying again…');
  switch (state.link) {
    case 'live': return 'Live, straight from memory.';
    case 'durable': return 'Following the durable text, a checkpoint at a time.';
    case 'waiting': return 'The connection was lost. Joining again…';
    default: return 'Joining…';
  }
}

// The list.

let streams = new Map(); // by id
let live = '';
let looks = 0;
let delay = POLL;
let timer = 0;

async function look() {
  clearTimeout(timer);
  timer = 0;
  if (document.hidden) return; // a page that is seen again looks again
  const mine = ++looks;
  try {
    const now = await api.list({ status: 'streaming', limit: 50 });
    const ids = now.map((s) => s.streamId).join('\n');
    if (ids !== live || mine % RECENT_EVERY === 1) {
      streams = new Map((await api.list({ limit: 100 })).map((s) => [s.streamId, s]));
    }
    if (mine !== looks) return;
    for (const s of streams.values()) if (s.status === 'streaming') streams.delete(s.streamId);
    for (const s of now) streams.set(s.streamId, s);
    live = ids;
    delay = POLL;
    if ($('notice').dataset.about === 'list') notice('');
    list();
  } catch (problem) {
    if (mine !== looks) return;
    if (!(problem instanceof RillkeepError)) throw problem;
    if (problem.status === 401) return askForToken();
    delay = Math.min(SLOWEST, delay * 2);
    notice(
      problem.status === 403
        ? 'Your token does not allow to list streams. You can follow one by its id.'
        : `${api.words(problem)} Trying again…`,
      'list',
    );
  }
  timer = setTimeout(look, delay);
}

function list() {
  const newest = (a, b) => b.updatedAt.localeCompare(a.updatedAt);
  const all = [...streams.values()].sort(newest);
  fill($('live'), all.filter((s) => s.status === 'streaming'));
  fill($('recent'), all.filter((s) => s.status !== 'streaming').slice(0, RECENT));
  $('no-live').hidden = $('live').childElementCount > 0;
  $('recent-title').hidden = $('recent').childElementCount === 0;
  house($('home'), streams.get(selected));
  mark();
}

// fill keeps the items that stay, so that focus stays with them.
function fill(ul, wanted) {
  const old = new Map([...ul.children].map((li) => [li.dataset.id, li]));
  const items = wanted.map((s) => {
    const li = old.get(s.streamId) ?? item(s.streamId);
    const [link] = li.children;
    link.dataset.status = s.status;
    const [figures, home] = link.children[1].children;
    figures.textContent = `${count.format(s.seq)} · ${STATUS[s.status] ?? s.status}`;
    house(home, s);
    return li;
  });
  if (items.length !== ul.children.length || items.some((li, i) => li !== ul.children[i])) {
    const focused = document.activeElement;
    ul.replaceChildren(...items);
    if (ul.contains(focused)) focused.focus();
  }
}

function item(id) {
  const link = document.createElement('a');
  link.href = `#${encodeURIComponent(id)}`;
  for (const text of [id, '']) link.append(Object.assign(document.createElement('span'), { textContent: text }));
  for (const name of ['of', 'home']) link.lastChild.append(Object.assign(document.createElement('b'), { className: name }));
  const li = document.createElement('li');
  li.dataset.id = id;
  li.append(link);
  return li;
}

// house says which node has a stream.
function house(element, stream) {
  const home = cluster.home(stream?.status === 'streaming' ? stream.host : '');
  element.hidden = !home;
  element.textContent = home ? `${home.node}${home.lost ? ', lost' : ''}` : '';
  element.dataset.hue = home?.hue ?? '';
}

function mark() {
  for (const li of document.querySelectorAll('.streams li')) {
    if (li.dataset.id === selected) li.firstChild.setAttribute('aria-current', 'true');
    else li.firstChild.removeAttribute('aria-current');
  }
}

function notice(words, about = '') {
  if ($('notice').textContent !== words) $('notice').textContent = words; // or it would be read out again
  $('notice').dataset.about = about;
  $('notice').hidden = words === '';
}

// What the user does.

function askForToken() {
  if (!$('token-form').hidden) return;
  if (api.currentToken()) notice('The node did not take this token. It may have expired.');
  $('token-form').hidden = false;
  $('token').focus();
}

$('token-form').addEventListener('submit', (event) => {
  event.preventDefault();
  token($('token').value.trim());
});

$('forget').addEventListener('click', () => token(''));

function token(value) {
  api.useToken(value);
  $('token').value = '';
  $('token-form').hidden = true;
  $('forget').hidden = value === '';
  notice('');
  reader?.close();
  reader = null;
  select();
  look();
  cluster.restart();
}

async function attempt(button, action) {
  button.disabled = true;
  try {
    await action();
    notice('');
  } catch (problem) {
    if (!(problem instanceof RillkeepError)) throw problem;
    if (problem.status === 401) askForToken();
    else notice(api.words(problem));
    return false;
  } finally {
    button.disabled = false;
  }
  return true;
}

$('play').addEventListener('click', async () => {
  const bytes = crypto.getRandomValues(new Uint8Array(5));
  const id = `sample-${Array.from(bytes, (b) => b.toString(36).padStart(2, '0')).join('')}`;
  if (!(await attempt($('play'), () => api.play(id)))) return;
  location.hash = `#${encodeURIComponent(id)}`;
  look();
});

$('cancel').addEventListener('click', () => attempt($('cancel'), () => api.cancel(selected)));

$('follow-form').addEventListener('submit', (event) => {
  event.preventDefault();
  location.hash = `#${encodeURIComponent($('follow-id').value)}`;
  $('follow-id').value = '';
});

$('copy').addEventListener('click', async () => {
  try {
    await navigator.clipboard.writeText($('curl').textContent);
  } catch { // not every page may write to the clipboard: leave it to the user
    getSelection().selectAllChildren($('curl'));
    return;
  }
  $('copy').textContent = 'Copied';
  announcer.say('Copied.');
  setTimeout(() => { $('copy').textContent = 'Copy'; }, 2000);
});

// The address names the stream, so this link must not change it.
$('skip').addEventListener('click', (event) => {
  event.preventDefault();
  $('panel').focus();
});

$('node').textContent = location.host;
$('forget').hidden = api.currentToken() === '';
addEventListener('hashchange', select);
document.addEventListener('visibilitychange', look);
select();
look();
cluster.look();
