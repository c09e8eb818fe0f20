// The cluster: its members, how new streams are shared among them, and who has
// which. Where the nodes are run from this page's own address, by rillkeep dev, they
// can be killed and started here.

import * as api from '/web/api.js';

const POLL = 2000; // ms between looks
const SOON = 400; // ms, while something that was asked for happens
const SOON_FOR = 12000; // ms
const HUES = 6; // that style.css has
const ABSENT = [404, 501]; // answers of a node that is alone
const DENIED = [401, 403];

const STATE = {
  joining: 'Joining', active: 'Active', waiting: 'Waiting for its store', draining: 'Draining',
  starting: 'Starting', up: 'Up, not yet in the ring', paused: 'Paused', down: 'Down',
};
const FIRST = ['active', 'waiting', 'joining', 'draining']; // of several runs of a node this one is shown

// What can be done to a node: in which of its states, and what it is called then.
const ACTIONS = [
  { action: 'kill', says: () => 'Kill', can: (state) => state !== 'down' },
  { action: 'stop', says: () => 'Drain', can: (state) => ['starting', 'up', 'paused'].includes(state) },
  { action: 'pause', says: () => 'Pause', can: (state) => state === 'up' },
  { action: 'resume', says: () => 'Resume', can: (state) => state === 'paused' },
  { action: 'restart', says: (state) => (state === 'down' ? 'Start' : 'Restart'), can: () => true },
];

const percent = new Intl.NumberFormat('en', { style: 'percent' });
const count = new Intl.NumberFormat('en');

export class Cluster {
  #root;
  #onChange;
  #onProblem;
  #members = [];
  #nodes = null; // as rillkeep dev tells them; null if it does not run them
  #self = '';
  #alone = false;
  #supervised = true; // until it is known
  #hues = new Map(); // by node
  #states = new Map(); // as last shown
  #looks = 0;
  #timer = 0;
  #soonUntil = 0;

  /**
   * @param {HTMLElement} root with the panel in it
   * @param {object} calls
   * @param {() => void} calls.onChange called when there is something new
   * @param {(refusal: object) => void} calls.onProblem called when a button's wish is not granted
   */
  constructor(root, { onChange, onProblem }) {
    this.#root = root;
    this.#onChange = onChange;
    this.#onProblem = onProblem;
    document.addEventListener('visibilitychange', () => this.look());
  }

  /** Looks anew, with a token that may be another. */
  restart() {
    this.#alone = false;
    this.look();
  }

  /** Who has a stream that names its host: {node, hue, lost}, or null. */
  home(host) {
    if (!host || this.#alone || this.#members.length === 0) return null;
    const member = this.#members.find((m) => m.name === host);
    const node = member?.node ?? host.slice(0, host.lastIndexOf('/'));
    const state = this.#nodes?.find((n) => n.name === node)?.state;
    return { node, hue: this.#hue(node), lost: !member || state === 'down' };
  }

  async look() {
    clearTimeout(this.#timer);
    if (document.hidden || this.#alone) return; // a page that is seen again looks again
    const mine = ++this.#looks;
    const cluster = await attempt(api.cluster);
    const missing = cluster.problem && ABSENT.includes(cluster.problem.status);
    const nodes = this.#supervised && !missing ? await attempt(api.nodes) : {};
    if (mine !== this.#looks) return;
    this.#take(cluster, nodes);
    this.#alone = Boolean(missing) || Boolean(cluster.problem && DENIED.includes(cluster.problem.status) && !this.#nodes);
    this.#show();
    this.#onChange();
    this.#timer = setTimeout(() => this.look(), Date.now() < this.#soonUntil ? SOON : POLL);
  }

  // take keeps what was known where there is no answer this time.
  #take(cluster, nodes) {
    if (cluster.answer) {
      this.#members = cluster.answer.members;
      this.#self = cluster.answer.self;
    }
    if (nodes.answer) this.#nodes = nodes.answer.nodes;
    else if (nodes.problem && nodes.problem.status !== 0) this.#supervised = false;
  }

  #hue(node) {
    if (!this.#hues.has(node)) this.#hues.set(node, this.#hues.size % HUES);
    return this.#hues.get(node);
  }

  // rows are the nodes by name, each with its runs and what its supervisor says.
  #rows() {
    const names = new Set([...this.#members.map((m) => m.node), ...(this.#nodes ?? []).map((n) => n.name)]);
    return [...names].sort((a, b) => a.localeCompare(b, 'en', { numeric: true })).map((name) => {
      const runs = this.#members.filter((m) => m.node === name);
      const run = FIRST.map((state) => runs.find((m) => m.state === state)).find(Boolean) ?? runs[0];
      const process = this.#nodes?.find((n) => n.name === name);
      const known = runs.filter((m) => m.streams !== undefined);
      return {
        name,
        process: process?.state,
        state: process && (process.state !== 'up' || !run) ? process.state : run.state,
        why: process?.state === 'down' ? process.why : '',
        share: runs.reduce((sum, m) => sum + m.share, 0),
        streams: known.length ? known.reduce((sum, m) => sum + m.streams, 0) : null,
        self: !this.#nodes && runs.some((m) => m.name === this.#self), // else it is another each time
        url: run?.url ?? process?.url ?? '',
      };
    });
  }

  #show() {
    const rows = this.#alone ? [] : this.#rows();
    this.#root.hidden = rows.length === 0;
    document.body.classList.toggle('clustered', rows.length > 0);
    if (rows.length === 0) return;
    for (const row of rows) this.#hue(row.name);
    this.#ring(rows);
    const list = this.#root.querySelector('ul');
    const old = new Map([...list.children].map((li) => [li.dataset.node, li]));
    const items = rows.map((row) => old.get(row.name) ?? this.#item(row));
    if (items.length !== list.children.length || items.some((li, i) => li !== list.children[i])) list.replaceChildren(...items);
    rows.forEach((row, i) => this.#fill(items[i], row));
    this.#tell(rows);
  }

  // ring draws the shares.
  #ring(rows) {
    const svg = this.#root.querySelector('svg');
    const active = rows.filter((row) => row.share > 0);
    let at = 0;
    const arcs = active.map((row) => {
      const length = row.share * 100;
      const arc = document.createElementNS(svg.namespaceURI, 'circle');
      const gap = active.length > 1 ? Math.min(1.2, length / 2) : 0;
      for (const [name, value] of Object.entries({
        cx: 21, cy: 21, r: 16, pathLength: 100,
        'stroke-dasharray': `${length - gap} ${100 - length + gap}`, 'stroke-dashoffset': -at,
      })) arc.setAttribute(name, value);
      arc.dataset.hue = this.#hue(row.name);
      at += length;
      return arc;
    });
    svg.querySelector('g').replaceChildren(...arcs);
    svg.querySelector('text').textContent = String(active.length);
    svg.setAttribute('aria-label', `Shares of new streams: ${active.map((row) => `${row.name} ${percent.format(row.share)}`).join(', ') || 'none'}`);
  }

  #item(row) {
    const li = document.createElement('li');
    li.dataset.node = row.name;
    li.dataset.hue = this.#hue(row.name);
    for (const part of ['name', 'state', 'load', 'actions']) li.append(Object.assign(document.createElement('span'), { className: part }));
    li.querySelector('.name').textContent = row.name;
    if (!row.process) return li;
    for (const { action } of ACTIONS) {
      const button = Object.assign(document.createElement('button'), { type: 'button' });
      button.dataset.action = action;
      button.addEventListener('click', () => this.#act(li, button));
      li.lastChild.append(button);
    }
    return li;
  }

  #fill(li, row) {
    li.dataset.state = row.state;
    li.dataset.process = row.process ?? '';
    put(li.querySelector('.state'), STATE[row.state] ?? row.state);
    const live = row.streams === null ? [] : [`${count.format(row.streams)} live`];
    const share = row.share > 0 ? [`${percent.format(row.share)} of new streams`] : [];
    const here = row.self ? ['answers this page'] : [];
    put(li.querySelector('.load'), row.state === 'down' ? row.why : [...share, ...live, ...here].join(' · '));
    li.title = row.url;
    this.#buttons(li, row);
  }

  // A button that can't be used now keeps its place, and the focus. Pause and resume
  // have one place between them.
  #buttons(li, row) {
    const focused = document.activeElement;
    const paused = row.process === 'paused';
    for (const { action, says, can } of ACTIONS) {
      const button = li.querySelector(`[data-action="${action}"]`);
      if (!button) return; // nobody runs this node from here
      const words = says(row.process);
      put(button, words);
      button.setAttribute('aria-label', `${words} ${row.name}`);
      button.setAttribute('aria-disabled', String(!can(row.process)));
      button.hidden = action === 'pause' ? paused : action === 'resume' && !paused;
    }
    if (li.contains(focused) && focused.hidden) li.querySelector(`[data-action="${paused ? 'resume' : 'pause'}"]`).focus();
  }

  async #act(li, button) {
    if (button.getAttribute('aria-disabled') === 'true') return;
    this.#soonUntil = Date.now() + SOON_FOR;
    const { problem } = await attempt(() => api.act(li.dataset.node, button.dataset.action));
    if (problem) this.#onProblem(problem);
    this.look();
  }

  // tell reads out which nodes are in another state than before.
  #tell(rows) {
    const news = rows.filter((row) => this.#states.size && this.#states.get(row.name) !== row.state)
      .map((row) => `${row.name}: ${STATE[row.state] ?? row.state}.`);
    this.#states = new Map(rows.map((row) => [row.name, row.state]));
    if (news.length) this.#root.querySelector('[role="status"]').textContent = news.join(' ');
  }
}

// put changes a text only if it is another, so that what is selected stays so.
function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

async function attempt(call) {
  try {
    return { answer: await call() };
  } catch (problem) {
    if (!(problem instanceof api.Refusal)) throw problem;
    return { problem };
  }
}
