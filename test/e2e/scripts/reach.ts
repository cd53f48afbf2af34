// Worker 0 has the server call worker 1: while that lives, while it is killed, and when it is there again.

import { setTimeout as sleep } from "node:timers/promises";
import { connect, isWeighbridgeError } from "weighbridge";
import { end, finish, reach, wait } from "./reach-functions.ts";

const session = await connect();

/** What a call came to: a process, or the code of its error. */
const outcomeOf = (call: Promise<{ readonly pid?: number }>): Promise<string> =>
  call.then(
    ({ pid }) => `process ${pid}`,
    (error: unknown) => (isWeighbridgeError(error) ? error.code : String(error)),
  );

if (session.rank === 1) {
  const { promise, resolve } = Promise.withResolvers<void>();
  session.serve(end, () => {
    resolve();
    return {};
  });
  console.log(`serving in process ${process.pid}`);
  await promise;
} else {
  const to = { server: 0 } as const;
  const request = { worker: 1 };
  console.log(`at first: ${await outcomeOf(session.call(reach, to, request))}`);
  console.log(`nobody there: ${await outcomeOf(session.call(reach, to, { worker: 5 }))}`);
  console.log(`too late: ${await outcomeOf(session.call(wait, to, request, { timeoutMs: 100 }))}`);
  console.log("waiting");
  console.log(`killed: ${await outcomeOf(session.call(wait, to, request))}`);
  console.log(`gone: ${await outcomeOf(session.call(reach, to, request))}`);
  for (let isEnded = false; !isEnded; await sleep(100)) {
    const again = await outcomeOf(session.call(reach, to, request));
    if (again.startsWith("process")) console.log(`again: ${again}`);
    // The new one serves `end` a little later.
    isEnded = (await outcomeOf(session.call(finish, to, request))) === "process undefined";
  }
}
await session.close();
