// simple-app — a node of any role. The scheduler sends every node of the cluster, itself among them, 100 requests;
// every node counts those that it answers. Does what ps-lite's test_simple_app does, with which it shares a cluster in
// some tests.

import { Group, SimpleApp } from "weighbridge/kv";
import { start } from "weighbridge/node";

const REQUEST_COUNT = 100;

const office = await start();
const app = new SimpleApp(office, 0, 0);
let answeredCount = 0;
app.setRequestHandle((request) => {
  const body = new TextDecoder().decode(request.body);
  if (request.head !== 1 || body !== "test") throw new Error(`a request with head ${request.head} and body ${body}`);
  app.response(request);
  answeredCount++;
});
if (office.isScheduler) {
  const requests = Array.from({ length: REQUEST_COUNT }, () => app.request(1, "test", Group.ALL));
  for (const request of requests) await app.wait(request);
}
await office.finalize();
if (answeredCount !== REQUEST_COUNT) throw new Error(`${answeredCount} requests came, not ${REQUEST_COUNT}`);
console.log("all requests came");
