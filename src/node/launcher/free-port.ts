// free-port — finds a TCP port that nobody listens on, at random, below the ports that systems assign themselves: two
// processes that request one of those at the same moment may get the same, and any outgoing connection may take it
// before the scheduler listens.

import { randomInt } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

/** Above well-known ports and below those that Linux, macOS and Windows assign. */
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;
const DRAWS_MAX = 64;

/** A port of this host that was free a moment ago, and that hardly any other process draws. */
export async function freePort(host: string): Promise<number> {
  for (let draw = 0; draw < DRAWS_MAX; draw++) {
    const port = await tryPort(host, randomInt(PORT_MIN, PORT_MAX));
    if (port !== undefined) return port;
  }
  const port = await tryPort(host, 0); // the system's own choice
  if (port === undefined) throw new Error(`no port of ${host} is free`);
  return port;
}

/** Undefined if it is taken. */
async function tryPort(host: string, wanted: number): Promise<number | undefined> {
  const server = createServer();
  server.listen({ host, port: wanted, exclusive: true });
  try {
    await once(server, "listening");
  } catch (thrown) {
    if (thrown instanceof Error && "code" in thrown && thrown.code === "EADDRINUSE") return undefined;
    throw thrown;
  }
  const { port } = server.address() as AddressInfo; // It listens on TCP, so it has a port.
  server.close();
  await once(server, "close");
  return port;
}
