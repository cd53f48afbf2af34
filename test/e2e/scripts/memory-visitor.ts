// Prints which host it takes itself to be on, and what comes of opening the memory that it is given.

import { reasonOf } from "../../../src/base/errors.ts";
import { SILENT_LOG } from "../../../src/base/log.ts";
import { sharedMemory } from "../../../src/node/transport/shared-memory.ts";

const [path = "", byteCount = ""] = process.argv.slice(2);
const system = await sharedMemory({ log: SILENT_LOG });
let opened = "opened";
try {
  system?.open(path, Number(byteCount)).unmap();
} catch (thrown) {
  opened = reasonOf(thrown);
}
console.log(JSON.stringify({ host: system?.host, opened }));
