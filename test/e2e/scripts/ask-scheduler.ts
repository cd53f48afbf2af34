// ask-scheduler — a worker asks the scheduler's application 7.

import { SCHEDULER_ID, SimpleApp } from "weighbridge/kv";
import { start } from "weighbridge/node";

const office = await start();
const app = new SimpleApp(office, 7);
await app.wait(app.request(1, "", SCHEDULER_ID));
await office.finalize();
