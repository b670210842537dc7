// An agent made with the published library: agent.mjs <where the library is> <"0" or "2">. What it does, its task says.

import { Readable, Writable } from "node:stream";
import { appendFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [, , place, major] = process.argv;
const entry = { 0: "acp-0/dist/acp.js", 2: "acp-2/dist/v1/stable/acp.js" }[major];
const acp = await import(pathToFileURL(join(place, "node_modules", entry)));

const note = (line) => appendFileSync(process.env.AGENT_NOTES, line + "\n");
const cancels = new Map();
let cwd;

const initialize = () => ({ protocolVersion: acp.PROTOCOL_VERSION, agentCapabilities: {} });

const newSession = (params) => {
  cwd = params.cwd;
  note(`new ${JSON.stringify(params.mcpServers)}`);
  const sessionId = crypto.randomUUID();
  cancels.set(sessionId, new AbortController());
  return { sessionId };
};

const cancel = (params) => {
  note("cancel");
  cancels.get(params.sessionId)?.abort();
};

/** `client` has `update(update)`, `permission(toolCall, options)` and `readFile(path)`. */
const prompt = async (params, client) => {
  const task = params.prompt.map((block) => block.text).join("");
  const say = (text, messageId) =>
    client.update({
      sessionUpdate: "agent_message_chunk",
      ...(messageId ? { messageId } : {}),
      content: { type: "text", text },
    });
  if (task.includes("[[TOOL]]")) {
    await client.update({
      sessionUpdate: "agent_thought_chunk",
      content: { type: "text", text: "let me think" },
    });
    await say("I will look. ");
    const call = { toolCallId: "t1", title: "look", kind: "read", status: "pending" };
    await client.update({ sessionUpdate: "tool_call", ...call });
    await client.update({ sessionUpdate: "tool_call_update", toolCallId: "t1", status: "completed" });
    await say("I looked ");
    await say(`in ${cwd}.`);
    return { stopReason: "end_turn" };
  }
  if (task.includes("[[ASK]]")) {
    const options = [
      { kind: "allow_always", name: "Always", optionId: "always" },
      { kind: "allow_once", name: "Once", optionId: "once" },
      { kind: "reject_once", name: "No", optionId: "no" },
    ];
    const answer = await client.permission({ toolCallId: "t1", title: "write" }, options);
    await say(`answered ${JSON.stringify(answer.outcome)}`);
    return { stopReason: "end_turn" };
  }
  if (task.includes("[[FILE]]")) {
    const told = await client.readFile("/etc/hostname").then(
      () => "it was read",
      (error) => `refused with ${error.code}`,
    );
    await say(told);
    return { stopReason: "end_turn" };
  }
  if (task.includes("[[FAIL]]")) {
    await say("half");
    throw new Error("the agent's own words");
  }
  if (task.includes("[[LENGTH]]")) {
    await say("cut of");
    return { stopReason: "max_tokens" };
  }
  await say("partial");
  note("hangs");
  const { signal } = cancels.get(params.sessionId);
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
  return { stopReason: "cancelled" };
};

const stream = acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
note(`process ${process.pid}`);
if (major === "0") {
  new acp.AgentSideConnection(
    (connection) => ({
      initialize,
      newSession,
      authenticate: () => ({}),
      cancel,
      prompt: (params) =>
        prompt(params, {
          update: (update) => connection.sessionUpdate({ sessionId: params.sessionId, update }),
          permission: (toolCall, options) =>
            connection.requestPermission({ sessionId: params.sessionId, toolCall, options }),
          readFile: (path) => connection.readTextFile({ sessionId: params.sessionId, path }),
        }),
    }),
    stream,
  );
} else {
  const { agent, client } = acp.methods;
  acp
    .agent({ name: "published" })
    .onRequest(agent.initialize, initialize)
    .onRequest(agent.session.new, ({ params }) => newSession(params))
    .onNotification(agent.session.cancel, ({ params }) => cancel(params))
    .onRequest(agent.session.prompt, ({ params, client: to }) => {
      const { sessionId } = params;
      return prompt(params, {
        update: (update) => to.notify(client.session.update, { sessionId, update }),
        permission: (toolCall, options) =>
          to.request(client.session.requestPermission, { sessionId, toolCall, options }),
        readFile: (path) => to.request(client.fs.readTextFile, { sessionId, path }),
      });
    })
    .connect(stream);
}
