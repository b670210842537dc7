// Drives release 2.4.0 of the TypeScript client, which builds its connections in another way and takes requests back.

import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

import { drive } from './pipe.mjs';

const told = JSON.parse(process.argv[2]);
const found = createRequire(`${told.client}/package.json`).resolve('acp-sdk-2.4.0');
const { client, methods, ndJsonStream } = await import(pathToFileURL(found));

drive(({ output, input, update, permission }) => {
  const { agent } = client({ name: 'transom-peers' })
    .onNotification(methods.client.session.update, ({ params }) => update(params))
    .onRequest(methods.client.session.requestPermission, ({ params }) => permission(params))
    .connect(ndJsonStream(output, input));
  return {
    request: (method, params, cancellationSignal) => agent.request(method, params, { cancellationSignal }),
    notify: (method, params) => agent.notify(method, params),
  };
});
