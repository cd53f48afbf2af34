// Dials the address it is given, over shared memory, sends the bytes of a stream in chunks of all sizes, and reads what
// comes, until it is killed.

import { Random } from "../../../src/base/random.ts";
import { streamBytes } from "../../support/stream-bytes.ts";
import { sharedTransport } from "../killed-peers.ts";

const [address = "", seed = "1"] = process.argv.slice(2);
const random = new Random(Number(seed));
const transport = await sharedTransport();
const view = new Uint8Array(64 * 1024);
const reader = { view: () => view, received: () => {}, closed: () => process.exit() };
const link = await transport.connect(address, () => reader, { timeoutMs: 5000 });
let sent = 0;

function send(): void {
  const chunk = streamBytes(sent, 1 + random.below(random.below(2) === 0 ? 200 : 400_000));
  sent += chunk.length;
  link.write([chunk], () => setImmediate(send));
}
send();
