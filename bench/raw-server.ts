// raw-server — the answering end of the raw ceiling, a process of its own: every `requestBytes` that arrive are
// answered with `replyBytes`.

import { type AddressInfo, createServer, type OnReadOpts, Socket } from "node:net";
import { serveCommands } from "./command-loop.ts";
import { boundSendBuffer, stayAwake } from "./raw-socket.ts";
import { type RawFlow, type RawPlan, RawSender } from "./raw-stream.ts";

export type RawServerProtocol = {
  listen: { request: null; reply: { port: number } };
  /** Holds for connections accepted afterwards. */
  configure: { request: { flow: RawFlow; plan: RawPlan }; reply: null };
};

let current: { flow: RawFlow; plan: RawPlan } | undefined;

const server = createServer({ pauseOnConnect: true, noDelay: true }, (accepted) => {
  if (current === undefined) throw new Error("a client connected before the flow was configured");
  const { flow, plan } = current;
  let receivedBytes = 0;
  const socket = adopt(accepted, {
    buffer: new Uint8Array(plan.readBytes),
    callback: (bytes) => {
      stayAwake();
      receivedBytes += bytes;
      const requests = Math.floor(receivedBytes / flow.requestBytes);
      if (requests === 0) return true;
      receivedBytes -= requests * flow.requestBytes;
      sender.owe(requests * flow.replyBytes);
      return true;
    },
  });
  const sender = new RawSender({ socket, plan, messageBytes: flow.replyBytes });
  socket.on("error", () => socket.destroy()); // the client hung up; the next measurement opens a new connection
  boundSendBuffer(socket);
  socket.resume();
});

/** The public API has no `onread` for accepted sockets, so the accepted handle moves to a new Socket. */
function adopt(accepted: Socket, onread: OnReadOpts): Socket {
  const owner = accepted as unknown as { _handle: object | null };
  const handle = owner._handle;
  owner._handle = null;
  return new Socket({ handle, readable: true, writable: true, onread } as ConstructorParameters<typeof Socket>[0]);
}

serveCommands<RawServerProtocol>({
  listen: () =>
    new Promise((resolve) => {
      server.listen(0, "127.0.0.1", () => resolve({ port: (server.address() as AddressInfo).port }));
    }),
  configure: (flowAndPlan) => {
    current = flowAndPlan;
    return null;
  },
});
