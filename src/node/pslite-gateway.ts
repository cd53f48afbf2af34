// pslite-gateway — creates the gateway to ps-lite's programs (pslite/gateway.ts) over sockets, as a configuration
// describes it.

import { PsliteGateway } from "../pslite/gateway.ts";
import type { NodeConfig } from "./config/node-config.ts";
import { advertised, type Surroundings, type TransportOptions } from "./process-node.ts";
import { formatTcpAddress } from "./transport/socket-address.ts";
import { SocketTransport } from "./transport/socket-transport.ts";

/**
 * ps-lite does not split messages: nothing urgent can overtake the rest of a long one. So a server writes larger pieces
 * than our own protocol's blocks, which saves some system time for each long pull and does not keep its node from
 * requesting the next one. A worker's pushes are read by a server of ours while they arrive: there smaller pieces are
 * better, because they are still in a cache.
 */
const WRITE_BYTES_MAX = { server: 2 * 1024 * 1024, worker: 256 * 1024, scheduler: 1024 * 1024 };
const ANSWER_BYTES_MAX = 32 * 1024 * 1024;

/** The options of a node that replace our own transport: every role listens, and the gateway resends what is lost. */
export function psliteOptions(config: NodeConfig, { clock, log, loop, boundSendBuffer }: Surroundings): TransportOptions {
  const { role, serverCount, workerCount, schedulerHost, schedulerPort, host, listenPort, faults, resendTimeoutMs } = config;
  const schedulerAddress = formatTcpAddress(schedulerHost, schedulerPort);
  // A worker of ps-lite has several threads that compete for the core on which a server of ours would stay awake: its
  // long pulls became slower. So a server stays awake for long pushes only.
  const transport = new SocketTransport({
    clock,
    log,
    loop: role === "scheduler" ? undefined : loop,
    isSleepy: role === "server",
    boundSendBuffer,
  });
  const gateway = new PsliteGateway({
    transport,
    clock,
    log,
    role,
    serverCount,
    workerCount,
    schedulerAddress,
    incarnation: Date.now(),
    startTimeoutMs: config.startTimeoutMs,
    isLocal: config.transport === "unix",
    heartbeatIntervalMs: config.heartbeatIntervalMs,
    heartbeatTimeoutMs: config.heartbeatTimeoutMs,
    resendTimeoutMs,
    dropPercent: faults.dropPercent,
    seed: faults.seed,
  });
  const listenAddress = formatTcpAddress(host, role === "scheduler" ? schedulerPort : listenPort);
  return {
    transport,
    gateway,
    schedulerAddress: role === "scheduler" ? listenAddress : schedulerAddress,
    listenAddress,
    advertise: (bound) => advertised(config, bound),
    resendTimeoutMs: 0,
    faults: undefined,
    limits: {
      queuedMax: config.outboxMessagesMax,
      inFlightBytesMax: config.outboxBytesMax,
      writeBytesMax: WRITE_BYTES_MAX[role],
      answerBytesMax: ANSWER_BYTES_MAX,
    },
  };
}
