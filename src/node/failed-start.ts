// failed-start — tells the scheduler why this process cannot become a node (cannot-start.ts).

import packageJson from "weighbridge/package.json" with { type: "json" };
import { isWeighbridgeError } from "../base/errors.ts";
import { SILENT_LOG } from "../base/log.ts";
import { reportStartFailure, wrongScheduler } from "../cluster/start-failure.ts";
import { Peer } from "../peer/peer.ts";
import { PlainReadBuffers } from "../peer/request-assembly.ts";
import { nodeLabel, schedulerAddresses } from "./config/node-addresses.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { realClock } from "./real-clock.ts";
import { SocketTransport } from "./transport/socket-transport.ts";

/** Never throws. */
export async function reportCannotStart(config: NodeConfig, thrown: unknown): Promise<void> {
  const { role, rank, serverCount, workerCount } = config;
  if (role === "scheduler" || !isWeighbridgeError(thrown)) return;
  const clock = realClock();
  const log = SILENT_LOG; // the error itself is reported
  const transport = new SocketTransport({ clock });
  const peer = new Peer({ transport, clock, log, readBuffers: new PlainReadBuffers(), packageVersion: packageJson.version, kind: role });
  const [address, ...otherSchedulers] = schedulerAddresses(config);
  peer.events = {
    unreachable: (channel, problem) => {
      const wrong = wrongScheduler(address, problem);
      if (wrong !== undefined) peer.drop(channel, wrong); // nobody there understands it
    },
  };
  const node = { role, rank, serverCount, workerCount, label: nodeLabel(config) };
  try {
    await reportStartFailure({ peer, clock, log, schedulerAddress: address, otherSchedulers, node }, thrown);
  } finally {
    await peer.close();
  }
}
