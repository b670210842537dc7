// One conversation with the standard surface, through the official library in the version that is asked for. Prints what
// was seen as one JSON object; any error ends it with a trace.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const { version, installed, program, args, cwd } = JSON.parse(process.argv[2]);
const find = createRequire(pathToFileURL(`${installed}/package.json`));
const acp = await import(pathToFileURL(find.resolve(`acp-${version}`)));

const agent = spawn(program, args, { cwd, stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((resolve) => agent.on("exit", (code, signal) => resolve(signal ?? code)));
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));

let updates = [];
const kinds = () => updates.splice(0).map((update) => update.sessionUpdate);
const onUpdate = ({ update }) => {
  updates.push(update);
  if (update.sessionUpdate === "tool_call") begun?.();
};
let begun;
const onPermission = ({ toolCall, options }) => {
  updates.push({ sessionUpdate: `permission for ${toolCall.title}` });
  return { outcome: { outcome: "selected", optionId: options[0].optionId } };
};

async function connect(work) {
  if (version === "early") {
    const client = { sessionUpdate: async (told) => onUpdate(told), requestPermission: async (asked) => onPermission(asked) };
    const side = new acp.ClientSideConnection(() => client, stream);
    return work({
      initialize: (params) => side.initialize(params),
      new: (params) => side.newSession(params),
      prompt: (params) => side.prompt(params),
      cancel: (params) => side.cancel(params),
      list: (params) => side.listSessions(params),
      resume: (params) => side.resumeSession(params),
      close: (params) => side.closeSession(params),
      choose: (params) => side.setSessionConfigOption(params),
    });
  }
  const { client, methods } = acp;
  return client({ name: "a test" })
    .onRequest(methods.client.session.requestPermission, ({ params }) => onPermission(params))
    .onNotification(methods.client.session.update, ({ params }) => onUpdate(params))
    .connectWith(stream, async (context) => {
      const session = methods.agent.session;
      const request = (method) => (params) => context.request(method, params);
      return work({
        initialize: request(methods.agent.initialize),
        new: request(session.new),
        prompt: request(session.prompt),
        cancel: (params) => context.notify(session.cancel, params),
        list: request(session.list),
        resume: request(session.resume),
        close: request(session.close),
        choose: request(session.setConfigOption),
      });
    });
}

const seen = await connect(async (agent) => {
  const seen = {};
  const capabilities = { fs: { readTextFile: false, writeTextFile: false } };
  const hello = await agent.initialize({ protocolVersion: 1, clientCapabilities: capabilities });
  seen.capabilities = hello.agentCapabilities.sessionCapabilities;
  const { sessionId, configOptions } = await agent.new({ cwd, mcpServers: [] });
  seen.model = configOptions[0].currentValue;
  const say = (text) => agent.prompt({ sessionId, prompt: [{ type: "text", text }] });
  for (const mark of ["REASON", "PERM", "LENGTH"]) {
    const { stopReason } = await say(`[[${mark}]]`);
    seen[mark] = [...kinds(), stopReason];
  }
  const started = new Promise((resolve) => (begun = resolve));
  const slow = say("[[SLOWTOOL]]");
  await started;
  await agent.cancel({ sessionId });
  const { stopReason } = await slow;
  seen.SLOWTOOL = [...kinds(), stopReason];
  const chosen = await agent.choose({ sessionId, configId: "model", value: seen.model });
  seen.chosen = chosen.configOptions[0].currentValue;
  await agent.close({ sessionId });
  const { sessions } = await agent.list({ cwd });
  seen.listed = sessions.map((row) => row.sessionId === sessionId && row.cwd === cwd);
  await agent.resume({ sessionId, cwd, mcpServers: [] });
  const again = await say("[[PLAIN]]");
  seen.resumed = [...kinds(), again.stopReason];
  return seen;
});
agent.stdin.end();
seen.exit = await exited;
console.log(JSON.stringify(seen));
process.exit(0);
