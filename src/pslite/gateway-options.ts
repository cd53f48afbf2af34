// gateway-options — what a gateway has to know of its node and its job. The defaults are ps-lite's.

import type { Clock } from "../base/clock.ts";
import type { Log } from "../base/log.ts";
import type { Address, Transport } from "../transport/transport.ts";
import type { Role } from "../wire/node-id.ts";

export type PsliteGatewayOptions = {
  /** Makes the connections. */
  readonly transport: Transport;
  readonly clock: Clock;
  readonly log: Log;
  readonly role: Role;
  readonly serverCount: number;
  readonly workerCount: number;
  /** "tcp://host:port" of the scheduler, as all nodes have it. */
  readonly schedulerAddress: Address;
  /**
   * Of a scheduler: which start of it this is, higher than that of every one before it, for instance the time of day. 1
   * when left out.
   */
  readonly incarnation?: number;
  /** True: unix sockets at /tmp/port instead of TCP (DMLC_LOCAL, ps-lite's ipc). */
  readonly isLocal?: boolean;
  /** How long whoever waits for a scheduler waits for one that may have lost it. */
  readonly startTimeoutMs?: number;
  readonly heartbeatIntervalMs?: number;
  readonly heartbeatTimeoutMs?: number;
  /** 0: off (PS_RESEND, PS_RESEND_TIMEOUT). */
  readonly resendTimeoutMs?: number;
  /** Percent of the messages that come to be lost on purpose (PS_DROP_MSG). */
  readonly dropPercent?: number;
  readonly seed?: number;
};
