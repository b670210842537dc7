// Drives release 0.25.1 of the TypeScript client, the one that automation clients were written with.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

import { drive } from './pipe.mjs';

const told = JSON.parse(process.argv[2]);
const found = createRequire(`${told.client}/package.json`).resolve('acp-sdk-0.25.1');
const { ClientSideConnection, ndJsonStream } = await import(pathToFileURL(found));

drive(({ output, input, update, permission }) => {
  const client = { sessionUpdate: update, requestPermission: permission };
  const connection = new ClientSideConnection(() => client, ndJsonStream(output, input));
  const methods = {
    initialize: (params) => connection.initialize(params),
    authenticate: (params) => connection.authenticate(params),
    'session/new': (params) => connection.newSession(params),
    'session/prompt': (params) => connection.prompt(params),
  };
  return {
    request: (method, params) => methods[method]?.(params) ?? connection.extMethod(method, params),
    notify(method, params) {
      if (method !== 'session/cancel') throw new Error(`this client has no notification ${method}`);
      return connection.cancel(params);
    },
  };
});
