// ps-context — the settings of parameter-server mode under MindSpore's names (set_ps_context), and what they mean here. Keys may be spelled as there (enable_ps) or in
// camelCase. Those that belong to federated learning or to TLS are known, and refused with the reason.
//
// Invariants:
//   P1. A call of `set` sets all of its keys or none.
//   P2. Nothing that is set is ignored: a key means something here, or is refused.

import { WeighbridgeError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";
import { inCamelCase, inOurNames } from "../faces/training/set-param-ps.ts";
import type { NodeConfigOptions, Role } from "./config/node-config.ts";

export type PsContextValues = {
  /** Whether there are servers at all; false by default. */
  readonly enablePs: boolean;
  /** A file of ours, YAML or JSON; empty: none. */
  readonly configFilePath: string;
  /** Where the scheduler serves HTTP; 0: nowhere, whatever the environment says. */
  readonly schedulerManagePort: number;
  readonly enableSsl: boolean;
  /** "PARAMETER_SERVER" is all there is. */
  readonly serverMode: string;
  /** "MS_WORKER", "MS_PSERVER" or "MS_SCHED"; empty: what the environment says. So for all that follow. */
  readonly msRole: string;
  /** 0: what the environment says. */
  readonly workerNum: number;
  readonly serverNum: number;
  readonly schedulerIp: string;
  readonly schedulerPort: number;
  readonly checkpointDir: string;
};

export type PsContextKey = keyof PsContextValues;

const DEFAULTS: PsContextValues = {
  enablePs: false,
  configFilePath: "",
  schedulerManagePort: 0,
  enableSsl: false,
  serverMode: "PARAMETER_SERVER",
  msRole: "",
  workerNum: 0,
  serverNum: 0,
  schedulerIp: "",
  schedulerPort: 0,
  checkpointDir: "",
};
const ROLES: Readonly<Record<string, Role>> = { MS_WORKER: "worker", MS_PSERVER: "server", MS_SERVER: "server", MS_SCHED: "scheduler" };
const PORT_MAX = 65_535;

const NO_TLS = "links have no TLS of their own: run them over a private network or a tunnel";
const NO_FEDERATION = "there is no federated learning here";
/** Known to MindSpore, refused here. What begins with fl, dp or sign is federated learning too. */
const REFUSED: Readonly<Record<string, string>> = {
  clientPassword: NO_TLS,
  serverPassword: NO_TLS,
  rootFirstCaPath: NO_TLS,
  rootSecondCaPath: NO_TLS,
  equipCrlPath: NO_TLS,
  pkiVerify: NO_TLS,
  replayAttackTimeDiff: NO_TLS,
  enableFl: NO_FEDERATION,
  federatedServerPort: NO_FEDERATION,
  startFlJobThreshold: NO_FEDERATION,
  startFlJobTimeWindow: NO_FEDERATION,
  updateModelRatio: NO_FEDERATION,
  updateModelTimeWindow: NO_FEDERATION,
  shareSecretsRatio: NO_FEDERATION,
  cipherTimeWindow: NO_FEDERATION,
  reconstructSecretsThreshold: NO_FEDERATION,
  clientEpochNum: NO_FEDERATION,
  clientBatchSize: NO_FEDERATION,
  clientLearningRate: NO_FEDERATION,
  workerStepNumPerIteration: NO_FEDERATION,
  encryptType: NO_FEDERATION,
  httpUrlPrefix: NO_FEDERATION,
  globalIterationTimeWindow: NO_FEDERATION,
  uploadCompressType: NO_FEDERATION,
  uploadSparseRate: NO_FEDERATION,
  downloadCompressType: NO_FEDERATION,
};
const FEDERATED = /^(fl|dp|sign)[A-Z]/;

export class PsContext {
  /** Only what was set. */
  #values: Partial<PsContextValues> = {};

  /** P1. Throws BAD_CONFIG for an unknown key, naming the nearest, and for a value that cannot be, BAD_ARGUMENT for a key that is there in two spellings, UNSUPPORTED for what is known and not offered. */
  set(values: Partial<PsContextValues>): void {
    if (typeof values !== "object" || values === null) {
      throw new WeighbridgeError("BAD_CONFIG", `setPsContext takes an object of keys, such as { enablePs: true }, not ${String(values)}`);
    }
    const named = inOurNames(values, "the keys of setPsContext") as Partial<PsContextValues>;
    for (const [key, value] of Object.entries(named)) checkValue(key, value);
    this.#values = { ...this.#values, ...named };
  }

  /** Throws BAD_CONFIG for a key that does not exist. */
  get<K extends PsContextKey>(key: K): PsContextValues[K] {
    const name = inCamelCase(key) as K;
    if (Object.hasOwn(DEFAULTS, name)) return this.#values[name] ?? DEFAULTS[name];
    throw unknownKey(key);
  }

  reset(): void {
    this.#values = {};
  }

  /** What `connect` is to be told: only what was set. */
  get nodeOptions(): NodeConfigOptions {
    const { configFilePath, msRole, workerNum, serverNum, schedulerIp, schedulerPort, checkpointDir } = { ...DEFAULTS, ...this.#values };
    const { schedulerManagePort } = this.#values;
    return {
      ...(configFilePath === "" ? {} : { config: configFilePath }),
      ...(schedulerManagePort === undefined ? {} : { managePort: schedulerManagePort }),
      ...(msRole === "" ? {} : { role: ROLES[msRole] }),
      ...(workerNum === 0 ? {} : { workerCount: workerNum }),
      ...(serverNum === 0 ? {} : { serverCount: serverNum }),
      ...(schedulerIp === "" ? {} : { schedulerHost: schedulerIp }),
      ...(schedulerPort === 0 ? {} : { schedulerPort }),
      ...(checkpointDir === "" ? {} : { checkpointDir }),
    };
  }
}

/** P2 */
function checkValue(key: string, value: unknown): void {
  const reason = Object.hasOwn(REFUSED, key) ? REFUSED[key] : FEDERATED.test(key) ? NO_FEDERATION : undefined;
  if (reason !== undefined) throw new WeighbridgeError("UNSUPPORTED", `setPsContext: ${key} is MindSpore's, and not offered: ${reason}`);
  if (!Object.hasOwn(DEFAULTS, key)) throw unknownKey(key);
  const expected = expectedOf(key as PsContextKey, value);
  if (expected !== undefined) {
    const hint = key === "msRole" ? didYouMean(value, Object.keys(ROLES)) : "";
    throw new WeighbridgeError("BAD_CONFIG", `setPsContext: ${key} is ${expected}, not ${JSON.stringify(value)}${hint}`);
  }
  if (key === "enableSsl" && value === true) throw new WeighbridgeError("UNSUPPORTED", `setPsContext: enableSsl: ${NO_TLS}`);
  if (key === "serverMode" && value !== DEFAULTS.serverMode) {
    throw new WeighbridgeError("UNSUPPORTED", `setPsContext: serverMode ${JSON.stringify(value)}: ${NO_FEDERATION}`);
  }
}

/** In words, when the value is something else. */
function expectedOf(key: PsContextKey, value: unknown): string | undefined {
  switch (key) {
    case "enablePs":
    case "enableSsl":
      return typeof value === "boolean" ? undefined : "true or false";
    case "schedulerManagePort":
    case "schedulerPort":
      return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= PORT_MAX
        ? undefined
        : `a port from 0 to ${PORT_MAX}`;
    case "workerNum":
    case "serverNum":
      return Number.isSafeInteger(value) && (value as number) >= 0 ? undefined : "a whole number from 0 on";
    case "msRole":
      return value === "" || (typeof value === "string" && Object.hasOwn(ROLES, value))
        ? undefined
        : `one of ${Object.keys(ROLES).join(", ")}`;
    default:
      return typeof value === "string" ? undefined : "a text";
  }
}

function unknownKey(key: string): WeighbridgeError {
  return new WeighbridgeError("BAD_CONFIG", `the PS context has no ${JSON.stringify(key)}${didYouMean(key, Object.keys(DEFAULTS))}`);
}
