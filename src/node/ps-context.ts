// ps-context — the settings of parameter-server mode under MindSpore's names (set_ps_context), and what they mean here.
// Keys may be spelled as there (enable_ps) or in camelCase. Keys of federated learning and of TLS are known, and
// refused with the reason.
//
// Invariants:
//   PsContext.P1. A call of `set` sets all of its keys or none.
//   PsContext.P2. No key that is set is ignored: it has an effect here, or is refused.

import { unsupported, WeighbridgeError } from "../base/errors.ts";
import { didYouMean } from "../base/nearest-name.ts";
import { inCamelCase, inOurNames } from "../faces/training/mindspore-names.ts";
import type { NodeConfigOptions, Role } from "./config/node-config.ts";
import { PORT_MAX } from "./config/value-kind.ts";

/** The context, by its keys (MindSpore: set_ps_context). */
export type PsContextValues = {
  /** Whether there are servers; false by default. */
  readonly enablePs: boolean;
  /** A file of ours, YAML or JSON; empty: none. */
  readonly configFilePath: string;
  /** The port of the scheduler's HTTP server; 0: none, whatever the environment says. */
  readonly schedulerManagePort: number;
  /** Must be false: links have no TLS of their own. */
  readonly enableSsl: boolean;
  /** Only "PARAMETER_SERVER" is supported. */
  readonly serverMode: string;
  /** "MS_WORKER", "MS_PSERVER" or "MS_SCHED"; empty: read from the environment. The same for all that follow. */
  readonly msRole: string;
  /** 0: read from the environment. */
  readonly workerNum: number;
  /** How many servers the job has. 0: read from the environment. */
  readonly serverNum: number;
  /** Where the scheduler is. Empty: read from the environment. */
  readonly schedulerIp: string;
  /** The scheduler's port. 0: read from the environment. */
  readonly schedulerPort: number;
  /** Where servers keep checkpoints. Empty: read from the environment. */
  readonly checkpointDir: string;
};

/** A key of the context. */
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

const NO_TLS = "links have no TLS of their own: run them over a private network or a tunnel";
const NO_FEDERATION = "there is no federated learning here";
/** Known to MindSpore, refused here. Keys that begin with fl, dp or sign are federated learning too. */
const TLS_KEYS: readonly string[] = [
  ...["clientPassword", "serverPassword", "rootFirstCaPath", "rootSecondCaPath", "equipCrlPath", "pkiVerify", "replayAttackTimeDiff"],
];
const FEDERATED_KEYS: readonly string[] = [
  ...["enableFl", "federatedServerPort", "startFlJobThreshold", "startFlJobTimeWindow", "updateModelRatio", "updateModelTimeWindow"],
  ...["shareSecretsRatio", "cipherTimeWindow", "reconstructSecretsThreshold", "clientEpochNum", "clientBatchSize", "clientLearningRate"],
  ...["workerStepNumPerIteration", "encryptType", "httpUrlPrefix", "globalIterationTimeWindow"],
  ...["uploadCompressType", "uploadSparseRate", "downloadCompressType"],
];
const FEDERATED = /^(fl|dp|sign)[A-Z]/;

export class PsContext {
  /** Only what was set. */
  #values: Partial<PsContextValues> = {};

  /**
   * PsContext.P1. Throws BAD_CONFIG for an unknown key, naming the nearest, and for an invalid value, BAD_ARGUMENT for
   * a key in two spellings, UNSUPPORTED for one that is known and not offered.
   */
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

  /** The options for `connect`: only what was set. */
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

/** PsContext.P2 */
function checkValue(key: string, value: unknown): void {
  const isFederated = FEDERATED_KEYS.includes(key) || FEDERATED.test(key);
  const reason = TLS_KEYS.includes(key) ? NO_TLS : NO_FEDERATION;
  if (isFederated || TLS_KEYS.includes(key)) throw unsupported(`setPsContext: ${key} is MindSpore's, and not offered: ${reason}`);
  if (!Object.hasOwn(DEFAULTS, key)) throw unknownKey(key);
  const expected = expectedOf(key as PsContextKey, value);
  if (expected !== undefined) {
    const hint = key === "msRole" ? didYouMean(value, Object.keys(ROLES)) : "";
    throw new WeighbridgeError("BAD_CONFIG", `setPsContext: ${key} is ${expected}, not ${JSON.stringify(value)}${hint}`);
  }
  if (key === "enableSsl" && value === true) throw unsupported(`setPsContext: enableSsl: ${NO_TLS}`);
  if (key === "serverMode" && value !== DEFAULTS.serverMode) {
    throw unsupported(`setPsContext: serverMode ${JSON.stringify(value)}: ${NO_FEDERATION}`);
  }
}

/** What was expected, in words; undefined if the value is valid. */
function expectedOf(key: PsContextKey, value: unknown): string | undefined {
  const isCount = (max: number): boolean => Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= max;
  const roles = Object.keys(ROLES);
  if (key === "msRole") return value === "" || roles.includes(value as string) ? undefined : `one of ${roles.join(", ")}`;
  if (key.endsWith("Port")) return isCount(PORT_MAX) ? undefined : `a port from 0 to ${PORT_MAX}`;
  if (key.endsWith("Num")) return isCount(Number.MAX_SAFE_INTEGER) ? undefined : "a whole number from 0 on";
  const type = typeof DEFAULTS[key];
  if (typeof value === type) return undefined;
  return type === "boolean" ? "true or false" : "a text";
}

function unknownKey(key: string): WeighbridgeError {
  return new WeighbridgeError("BAD_CONFIG", `the PS context has no ${JSON.stringify(key)}${didYouMean(key, Object.keys(DEFAULTS))}`);
}
