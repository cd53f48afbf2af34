// port-to-wish — a port that portOrFree would give: it is free, and so is the one before it.

import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

export async function portToWish(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  const before = createServer();
  try {
    before.listen(port - 1, "127.0.0.1");
    await once(before, "listening");
  } catch {
    return await portToWish();
  }
  before.close();
  await once(before, "close");
  return port;
}
