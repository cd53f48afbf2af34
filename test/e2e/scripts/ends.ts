// ends — a worker that does one thing and does not close its session, except with "close": "exit" ends the process
// with exit code 0, "serve" serves a function to its servers, "listen" listens for events of its servers, and
// "leaving" waits until it is asked to leave. Worker 0 listens for that alone, the others for everything. "reduced" has
// summed with the other workers and closed the collective, "open" has left it open, and "receiving" ends while worker 0
// waits for values of worker 1.

import { setTimeout as sleep } from "node:timers/promises";
import { connect, workerFunction } from "weighbridge";

const [how] = process.argv.slice(2);
const session = await connect();
console.log("connected");
if (how === "exit") process.exit(0);
if (how === "close") await session.close();
if (how === "serve") session.serve(workerFunction({ name: "echo", request: {}, response: {}, handler: () => ({}) }));
const OTHERS = ["serverlost", "serverback", "rejoined", "placementchanged"] as const;
if (how === "listen") for (const event of OTHERS) session.addEventListener(event, () => {});
if (how === "leaving")
  await new Promise((asked) => {
    if (session.rank > 0) for (const event of OTHERS) session.addEventListener(event, () => {});
    session.addEventListener("leaving", asked, { once: true });
  });
if (how === "reduced" || how === "open") {
  const collective = await session.collective();
  await collective.allReduce(Float32Array.of(1));
  if (how === "reduced") await collective.close();
}
if (how === "receiving") {
  const collective = await session.collective();
  const values = Float32Array.of(session.rank + 1);
  if (session.rank > 0) await sleep(500); // worker 0 has nothing else to do meanwhile
  void collective.broadcast(values, 1).then(
    () => console.log(`has ${values[0]}`),
    (thrown: unknown) => console.log(String(thrown)),
  );
}
