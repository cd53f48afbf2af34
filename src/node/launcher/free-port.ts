// free-port — finds a TCP port on which no process listens, at random, below the ports that systems assign themselves:
// any outgoing connection may take one of those before the scheduler listens.
//
// Invariants:
//   FreePort.F1. Two processes never draw the same port, however close in time: a process that draws an odd port keeps
//       the even one before it until it ends, and skips ports whose even one is kept. In the same way one process at
//       a time gets the port that it wishes for (portOrFree).

import { randomInt } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";

/** Above well-known ports and below those that Linux, macOS and Windows assign. */
const PORT_MIN = 20_000;
const PORT_MAX = 32_000;
const DRAWS_MAX = 64;

/** A port of this host that was free a moment ago, and that no other process draws while this one lives. */
export async function freePort(host: string): Promise<number> {
  for (let draw = 0; draw < DRAWS_MAX; draw++) {
    const kept = 2 * randomInt(PORT_MIN / 2, PORT_MAX / 2);
    const port = kept + 1;
    const reservation = await listen(host, kept);
    if (reservation === undefined) continue;
    if (await isFree(host, port)) {
      reservation.unref();
      return port;
    }
    reservation.close();
  }
  const server = await listen(host, 0); // the system's own choice
  if (server === undefined) throw new Error(`no port of ${host} is free`);
  const { port } = server.address() as AddressInfo; // It listens on TCP, so it has a port.
  await closed(server);
  return port;
}

/** This port, if it was free a moment ago and no other process has got it here; any other free one if not. */
export async function portOrFree(host: string, port: number): Promise<number> {
  const reservation = await listen(host, port - 1);
  if (reservation !== undefined && (await isFree(host, port))) {
    reservation.unref();
    return port;
  }
  reservation?.close();
  return await freePort(host);
}

async function isFree(host: string, port: number): Promise<boolean> {
  const server = await listen(host, port);
  if (server !== undefined) await closed(server);
  return server !== undefined;
}

/** A server that talks to nobody; undefined if the port is taken. */
async function listen(host: string, port: number): Promise<Server | undefined> {
  const server = createServer((socket) => socket.destroy());
  server.listen({ host, port, exclusive: true });
  try {
    await once(server, "listening");
  } catch (thrown) {
    if (thrown instanceof Error && "code" in thrown && thrown.code === "EADDRINUSE") return undefined;
    throw thrown;
  }
  return server;
}

async function closed(server: Server): Promise<void> {
  server.close();
  await once(server, "close");
}
