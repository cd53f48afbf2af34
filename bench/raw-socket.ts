// raw-socket — what keeps the raw pair from being slower than any program has to be: its event loop stays awake while
// input is near, and the system holds a bounded number of its bytes. Both with the code that our nodes use
// (docs/decisions/0008 and 0020), or a share would measure that instead of what our protocol costs.

import type { Socket } from "node:net";
import { SILENT_LOG } from "../src/base/log.ts";
import { realClock } from "../src/node/real-clock.ts";
import { boundSendBuffers } from "../src/node/transport/send-buffer.ts";
import { wakefulLoop } from "../src/node/transport/wakeful-loop.ts";

const loop = wakefulLoop(realClock());
const bound = await boundSendBuffers({ log: SILENT_LOG });

/** To be called with every connected socket. */
export function boundSendBuffer(socket: Socket): void {
  bound?.(socket);
}

/** To be called for everything that is read. */
export function stayAwake(): void {
  loop?.input();
}
