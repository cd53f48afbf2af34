// 02-simple-app — requests with a number (head) and bytes (body) instead of keys and values: for whatever else nodes
// have to tell each other.

import { Group, SCHEDULER_ID, SimpleApp } from "weighbridge/kv";
import { start } from "weighbridge/node";

const APP = 7;
/** What a request asks for. The numbers are the application's own. */
const Ask = { COUNT_WORDS: 1, WHO_ARE_YOU: 2 } as const;

const office = await start();
const app = new SimpleApp(office, APP);
const me = `${office.role} ${office.myRank}`;

// Every node can be asked. A handle may answer later, or be async; what it throws goes back to the asker as an error.
app.setRequestHandle((request) => {
  const body = new TextDecoder().decode(request.body);
  if (request.head === Ask.WHO_ARE_YOU) app.response(request, me);
  else if (request.head === Ask.COUNT_WORDS) app.response(request, String(body.split(" ").length));
  else throw new Error(`${me} does not know what ${request.head} means`);
});

if (office.isWorker) {
  const answers: string[] = [];
  app.setResponseHandle((response) => void answers.push(new TextDecoder().decode(response.body)));

  // To a group: everybody in it answers. Nodes of one role do not talk to each other, so a worker asks servers and the
  // scheduler.
  await app.wait(app.request(Ask.WHO_ARE_YOU, "", Group.SERVERS + Group.SCHEDULER));
  const expected = ["scheduler 0", ...Array.from({ length: office.numServers }, (_, rank) => `server ${rank}`)];
  check(answers.splice(0).sort(), expected.sort());

  // To one node.
  await app.wait(app.request(Ask.COUNT_WORDS, "how many words are these", SCHEDULER_ID));
  check(answers.splice(0), ["5"]);

  // What a handle throws arrives where the request was made.
  const failure = await app.wait(app.request(99, "", office.serverRankToId(0))).catch((error: Error) => error.message);
  if (!String(failure).includes("server 0 does not know what 99 means")) throw new Error(`expected a refusal, got ${String(failure)}`);

  console.log(`${me} asked ${expected.length} nodes who they are, one for a count, and one too much: all as expected`);
}

await office.finalize();

function check(actual: readonly string[], expected: readonly string[]): void {
  if (actual.join() !== expected.join()) throw new Error(`expected ${expected.join()}, got ${actual.join()}`);
}
