// free-port — a TCP port that nobody listens on.

import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

/** A port of this host that was free a moment ago; the system does not hand it out again soon. */
export async function freePort(host: string): Promise<number> {
  const server = createServer();
  server.listen({ host, port: 0, exclusive: true });
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // It listens on TCP, so there is one.
  server.close();
  await once(server, "close");
  return port;
}
