// Drives the TypeScript client, which launches whatever command it is given: with a configuration
// file (form "a") or with a profile (form "b").
//
// Usage: TRANSOM_BIN=<program> node typescript.mjs \
//   '{"client": <dir with node_modules>, "model": <url>, "work": <dir>, "config": <file>, "form": "a"}' <scenario>…
//
// The client is the published one, unmodified. A scenario returns what it showed: results,
// notifications, errors and how the runtime ended. Whether that is right is judged by `main.rs`.

import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const told = JSON.parse(process.argv[2]);
const binary = process.env.TRANSOM_BIN;
const workspace = join(told.work, 'workspace');
const resolve = createRequire(join(told.client, 'package.json')).resolve;
const sdk = await import(pathToFileURL(resolve('@deepseek-ai/dsh-sdk-client')).href);

// Bounds a hang, never a measurement.
const PATIENCE_MS = 60_000;

/** The launch of this form; `changes` replaces parts of it. */
function launch({ args, environment = {}, key = 'sk-mock', ...rest } = {}) {
  const formA = {
    DSH_CORDIS_CONFIG: told.config,
    DSH_SESSION_ROOT: join(told.work, 'store'),
    DSH_CWD: workspace,
  };
  const formB = { DSH_HOME: join(told.work, 'store') };
  const env = {
    PATH: process.env.PATH,
    HOME: process.env.HOME,
    ...(process.env.XDG_CACHE_HOME === undefined ? {} : { XDG_CACHE_HOME: process.env.XDG_CACHE_HOME }),
    DEEPSEEK_BASE_URL: told.model,
    ...(key === null ? {} : { DEEPSEEK_API_KEY: key }),
    ...(told.form === 'a' ? formA : formB),
    ...environment,
  };
  return {
    command: binary,
    args: args ?? (told.form === 'a' ? [] : ['--profile', 'sdk']),
    cwd: workspace,
    env,
    ...rest,
  };
}

/** Fails instead of hanging. */
function patient(what, promise) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${what} did not come`)), PATIENCE_MS);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** The call's value, or its error with everything the client tells about it. */
async function attempt(call) {
  try {
    return { value: (await call()) ?? null };
  } catch (error) {
    const told = { class: error.name, message: error.message };
    if ('code' in error) {
      told.code = error.code;
      told.data = error.data ?? null;
      told.hasData = error.data !== undefined;
    }
    return { error: told };
  }
}

/** A client with its runtime, watched but not changed. */
class Peer {
  constructor(options = {}, launched = launch()) {
    this.harness = new sdk.DeepSeekHarness({ launch: launched, cwd: workspace, ...options });
    this.client = this.harness.client;
    this.signals = [];
  }

  /** Starts the process without a handshake, and notes each signal that the client sends to it. */
  spawn() {
    this.client.start();
    if (this.child === undefined) {
      this.child = this.client.child;
      this.exited = new Promise((resolve) => this.child.once('close', resolve));
      const kill = this.child.kill.bind(this.child);
      this.child.kill = (name) => {
        this.signals.push(name);
        return kill(name);
      };
    }
    return this.child;
  }

  async start() {
    this.spawn();
    await this.harness.start();
  }

  async run(sessionId, prompt, onNotification) {
    await this.start();
    const result = await patient(
      `the end of a run on ${sessionId}`,
      this.harness.run(prompt, { sessionId, onNotification }),
    );
    return { keys: Object.keys(result).sort(), ...result };
  }

  /** A run that goes on by itself; `reached` resolves at the first event of the type `until`. */
  running(sessionId, prompt, until) {
    const seen = [];
    let reach;
    const event = new Promise((resolve) => (reach = resolve));
    const outcome = attempt(() =>
      this.run(sessionId, prompt, (notification) => {
        seen.push(notification);
        if (notification.params.event?.type === until) reach();
      }),
    );
    const early = outcome.then((shown) => {
      throw new Error(`a run ended before ${until}: ${JSON.stringify({ ...shown, seen })}`);
    });
    early.catch(() => {});
    return {
      reached: () => patient(`${until} of ${sessionId}`, Promise.race([event, early])),
      finish: async () => ({ ...(await outcome), seen }),
    };
  }

  request(method, params) {
    return attempt(() => this.client.request(method, params));
  }

  /** Everything that the runtime says while `work` is done. */
  async during(work) {
    const subscription = this.client.subscribe();
    const value = await work();
    const unasked = [];
    for (let item = subscription.tryNext(); item !== undefined; item = subscription.tryNext()) {
      unasked.push(item.method);
    }
    subscription.close();
    return [value, unasked];
  }

  async close() {
    await this.harness.close();
    return this.ended();
  }

  /** How the process ended, as the client knows it. */
  async ended() {
    const born = await attempt(() => this.client.subscribe().next());
    return {
      exitCode: this.child.exitCode,
      signal: this.child.signalCode,
      signalsSent: [...this.signals],
      tail: [...this.client.stderrTail],
      told: born.error.message,
    };
  }

  /** Waits until the process has ended by itself. */
  async gone() {
    await patient('the end of the process', this.exited);
    return this.ended();
  }
}

/** Does something to the process while a turn streams. */
async function midTurn(act) {
  const peer = new Peer();
  const run = peer.running('main', 'PROMPT: SLOW', 'assistant/chunk');
  await run.reached();
  await act(peer);
  const close = await peer.gone();
  return { run: await run.finish(), close };
}

const malformed = [
  'not json',
  '',
  '   ',
  'null',
  '42',
  '"str"',
  '[]',
  '{"jsonrpc":"2.0"}',
  '[{"jsonrpc":"2.0","id":"in-a-batch","method":"shutdown"}]',
  '{"jsonrpc":"2.0","id":null,"method":"shutdown"}',
  '{"jsonrpc":"2.0","id":true,"method":"shutdown"}',
  '{"jsonrpc":"2.0","id":{},"method":"shutdown"}',
  '{"jsonrpc":"2.0","method":7,"id":"x"}',
  '{"jsonrpc":"2.0","id":"cut off',
  '{"jsonrpc":"2.0","id":"a","method":"shutdown"}\r{"jsonrpc":"2.0","id":"b","method":"shutdown"}',
  '['.repeat(20000),
];

const scenarios = {
  /** Every kind of model reply, each on a session of its own. */
  async answers() {
    const peer = new Peer();
    const runs = {};
    for (const word of ['PLAIN', 'THINK', 'UTF8', 'TOOL', 'ERR400', 'ERR401', 'ERR500', 'MAXTOK']) {
      runs[word] = await peer.run(word.toLowerCase(), `PROMPT: ${word}`);
    }
    return { runs, close: await peer.close() };
  },

  /** Two prompts on one session; the second carries characters outside ASCII. */
  async 'two-turns'() {
    const peer = new Peer();
    const first = await peer.run('main', 'PROMPT: PLAIN one');
    const second = await peer.run('main', [{ type: 'text', text: 'PROMPT: PLAIN 你好 🦀\u2028' }]);
    return { first, second, close: await peer.close() };
  },

  /** Two prompts on one session and one on another while the first turn's tool waits at a gate. */
  async overlap() {
    const gate = join(workspace, 'gate');
    execFileSync('mkfifo', [gate]);
    const peer = new Peer();
    const first = peer.running('main', 'PROMPT: GATE', 'tool/call');
    await first.reached();
    const second = peer.running('main', 'PROMPT: PLAIN second', 'agent/inbox/spliced');
    await second.reached();
    const other = await peer.run('other', 'PROMPT: PLAIN other');
    writeFileSync(gate, 'tool-proof\n');
    return { first: await first.finish(), second: await second.finish(), other, close: await peer.close() };
  },

  /** Six prompts at once on three sessions that do not exist yet. */
  async 'at-once'() {
    const peer = new Peer();
    const running = [1, 2].flatMap((turn) =>
      ['red', 'green', 'blue'].map((session) => peer.running(session, `PROMPT: PLAIN ${turn}`)),
    );
    return { runs: await Promise.all(running.map((run) => run.finish())), close: await peer.close() };
  },

  /** Lines that hold no request, then requests; the runtime must pass over the former. */
  async 'malformed-lines'() {
    const peer = new Peer();
    const { stdin } = peer.spawn();
    const [[before, after], unasked] = await peer.during(async () => {
      const before = {};
      for (const [number, line] of malformed.entries()) {
        stdin.write(`${line}\n`);
        before[number] = await peer.request(`probe/${number}`);
      }
      stdin.write(Buffer.from('{"jsonrpc":"2.0","id":"z","method":"\xff\xfe"}\n', 'latin1'));
      peer.client.transport.notify('client/notice');
      peer.client.transport.notify('client/notice', { a: 1 });
      stdin.write('{"jsonrpc":"2.0","id":"server-req-1","result":{"ok":true}}\n');
      stdin.write('{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"plain"}}\n');
      return [before, await peer.request('probe/after')];
    });
    const run = await peer.run('main', 'PROMPT: PLAIN');
    return { before, after, unasked, run, close: await peer.close() };
  },

  async 'unknown-method'() {
    const peer = new Peer();
    await peer.start();
    const answers = {};
    for (const method of ['nope', 'session/cancel', 'session.prompt', '', '你好']) {
      answers[method] = await peer.request(method);
    }
    return { answers, close: await peer.close() };
  },

  /** Prompts whose members are wrong, and values of the handshake that no runtime can use. */
  async 'bad-requests'() {
    const peer = new Peer();
    await peer.start();
    const block = { type: 'text', text: 'PROMPT: PLAIN' };
    const route = { cwd: workspace, provider: 'deepseek-official', model: 'deepseek-v4-flash' };
    const [answers, unasked] = await peer.during(async () => ({
      'no session id': await peer.request('session/prompt', { contentBlocks: [block] }),
      'number as session id': await peer.request('session/prompt', { sessionId: 7, contentBlocks: [block] }),
      'empty session id': await peer.request('session/prompt', { sessionId: '', contentBlocks: [block] }),
      'no blocks': await peer.request('session/prompt', { sessionId: 'main' }),
      'text as blocks': await peer.request('session/prompt', { sessionId: 'main', contentBlocks: 'hi' }),
      'maxTokens 0': await peer.request('initialize', { ...route, maxTokens: 0 }),
      'maxTokens -1': await peer.request('initialize', { ...route, maxTokens: -1 }),
      'maxTokens 1.5': await peer.request('initialize', { ...route, maxTokens: 1.5 }),
      'maxTokens text': await peer.request('initialize', { ...route, maxTokens: '12' }),
      'maxTokens null': await peer.request('initialize', { ...route, maxTokens: null }),
    }));
    return { answers, unasked, run: await peer.run('main', 'PROMPT: PLAIN'), close: await peer.close() };
  },

  /** Starts the process and closes it before any handshake. */
  async 'close-unused'() {
    const peer = new Peer();
    peer.spawn();
    return { close: await peer.close() };
  },

  async 'close-mid-turn'() {
    return midTurn((peer) => peer.close());
  },

  /** Closes while a command runs that would never end by itself. */
  async 'close-mid-tool'() {
    execFileSync('mkfifo', [join(workspace, 'gate')]);
    const peer = new Peer();
    const run = peer.running('main', 'PROMPT: GATE', 'tool/call');
    await run.reached();
    const close = await peer.close();
    return { run: await run.finish(), close };
  },

  async 'eof-idle'() {
    const peer = new Peer();
    const run = await peer.run('main', 'PROMPT: PLAIN');
    peer.child.stdin.end();
    return { run, close: await peer.gone() };
  },

  async 'eof-mid-turn'() {
    return midTurn((peer) => peer.child.stdin.end());
  },

  /** The order in which the Python client of the baseline ends a runtime. */
  async 'eof-then-sigterm'() {
    return midTurn((peer) => {
      peer.child.stdin.end();
      process.kill(peer.child.pid, 'SIGTERM');
    });
  },

  async 'sigterm-idle'() {
    const peer = new Peer();
    const run = await peer.run('main', 'PROMPT: PLAIN');
    process.kill(peer.child.pid, 'SIGTERM');
    return { run, close: await peer.gone() };
  },

  async 'sigterm-mid-turn'() {
    return midTurn((peer) => process.kill(peer.child.pid, 'SIGTERM'));
  },

  async 'sigint-idle'() {
    const peer = new Peer();
    const run = await peer.run('main', 'PROMPT: PLAIN');
    process.kill(peer.child.pid, 'SIGINT');
    return { run, close: await peer.gone() };
  },

  /** The client's end of the runtime's output is closed while a turn streams. */
  async 'closed-stdout'() {
    return midTurn((peer) => peer.child.stdout.destroy());
  },

  /** A handshake for a provider that nobody serves; then one on the same directories that works. */
  async 'foreign-provider'() {
    const foreign = new Peer({ provider: 'private' });
    foreign.spawn();
    const refused = await attempt(() => foreign.harness.start());
    const reaped = await foreign.ended();
    const peer = new Peer();
    return { refused, reaped, run: await peer.run('main', 'PROMPT: PLAIN'), close: await peer.close() };
  },

  /** A refused second handshake leaves the route of the first. */
  async 'kept-route'() {
    const peer = new Peer();
    await peer.start();
    const refused = await peer.request('initialize', { cwd: workspace, provider: 'private', model: 'other' });
    return { refused, run: await peer.run('main', 'PROMPT: PLAIN'), close: await peer.close() };
  },

  async 'max-tokens'() {
    const peer = new Peer({ maxTokens: 1234, model: 'deepseek-v4-pro' });
    return { run: await peer.run('main', 'PROMPT: PLAIN'), close: await peer.close() };
  },

  async 'missing-key'() {
    const peer = new Peer({}, launch({ key: null }));
    return { run: await peer.run('main', 'PROMPT: PLAIN'), close: await peer.close() };
  },

  async 'odd-ids'() {
    const peer = new Peer();
    const runs = [];
    for (const id of told.ids) runs.push(await peer.run(id, 'PROMPT: PLAIN'));
    return { runs, close: await peer.close() };
  },

  async 'prompt-before-initialize'() {
    const peer = new Peer();
    peer.spawn();
    const [early, unasked] = await peer.during(() =>
      attempt(() => peer.client.prompt('main', [{ type: 'text', text: 'PROMPT: PLAIN' }])),
    );
    return { early, unasked, run: await peer.run('main', 'PROMPT: PLAIN'), close: await peer.close() };
  },

  /** Two lives of a runtime on one store. */
  async restart() {
    const peer = new Peer();
    const first = await peer.run('main', 'PROMPT: PLAIN');
    const firstClose = await peer.close();
    const second = new Peer();
    await second.start();
    const refused = await attempt(() => second.run('main', 'PROMPT: PLAIN'));
    const other = await second.run('other', 'PROMPT: PLAIN');
    return { first, firstClose, refused, other, close: await second.close() };
  },

  /** Launches that must fail, and what the client tells its user. */
  async misconfigured() {
    const written = (name, text) => {
      const path = join(told.work, name);
      writeFileSync(path, text);
      return path;
    };
    const stranger = "\n- id: stranger\n  name: '@example/no-such-package'\n";
    const cases =
      told.form === 'a'
        ? {
            'no configuration': { environment: { DSH_CORDIS_CONFIG: '' } },
            'missing file': { environment: { DSH_CORDIS_CONFIG: join(told.work, 'nowhere.yml') } },
            'broken file': { environment: { DSH_CORDIS_CONFIG: written('broken.yml', '- id: [unclosed\n') } },
            'unknown package': { environment: { DSH_CORDIS_CONFIG: written('stranger.yml', readFileSync(told.config, 'utf8') + stranger) } },
          }
        : {
            'unknown profile': { args: ['--profile', 'nosuch'] },
            'missing patch': { args: ['--profile', 'sdk', '--patch', join(told.work, 'nowhere.yml')] },
            'unknown option': { args: ['--nope'] },
          };
    const failures = {};
    for (const [name, changes] of Object.entries(cases)) {
      const broken = new Peer({}, launch(changes));
      broken.spawn();
      const failed = await attempt(() => broken.harness.start());
      failures[name] = { ...failed, close: await broken.gone() };
    }
    return { failures };
  },

  /** The same launch by words: a configuration path or a profile name as the only argument. */
  async 'positional'() {
    const args = told.form === 'a' ? [told.config] : ['sdk'];
    const peer = new Peer({}, launch({ args, environment: told.form === 'a' ? { DSH_CORDIS_CONFIG: '' } : {} }));
    return { run: await peer.run('main', 'PROMPT: TOOL'), close: await peer.close() };
  },

  async 'minimal-profile'() {
    const peer = new Peer({}, launch({ args: ['--profile', 'sdk-minimal'] }));
    return { run: await peer.run('main', 'PROMPT: TOOL'), close: await peer.close() };
  },

  /** An abandoned wait is the client's affair: nothing is sent, and the runtime goes on. */
  async 'abandoned-wait'() {
    const gate = join(workspace, 'gate');
    execFileSync('mkfifo', [gate]);
    const peer = new Peer();
    const run = peer.running('main', 'PROMPT: GATE', 'tool/call');
    await run.reached();
    const waited = await attempt(() => peer.client.request('session/wait', { sessionId: 'main' }, 1));
    writeFileSync(gate, 'tool-proof\n');
    return { waited, run: await run.finish(), close: await peer.close() };
  },
};

mkdirSync(workspace, { recursive: true });
for (const name of process.argv.slice(3)) {
  const shown = await scenarios[name]();
  process.stdout.write(`${JSON.stringify({ scenario: name, ...shown })}\n`);
}
