// device-loop — what the thread of a device does: builds its replica, and computes its samples of every step until the
// thread is ended. It reads values that the owner changes between steps only (docs/decisions/0066).

import type { Clock } from "../../../base/clock.ts";
import { Activations, type Shape } from "../../../nn/activations.ts";
import { ReplicaWorkspace } from "../../../nn/replica-workspace.ts";
import type { WorkspaceSpan } from "../../../nn/workspace.ts";
import { CpuBackend, type CpuBackendOptions, type CpuMemory } from "../../../worker/level-one/cpu-backend.ts";
import type { RoundRules } from "../../../worker/level-one/key-rounds.ts";
import { LevelOne } from "../../../worker/level-one/level-one.ts";
import type { KeyPlan } from "../../../worker/level-one/model-backend.ts";
import type { MeterMemory } from "../../../worker/level-one/model-meter.ts";
import { type ModelMemory, ModelWords } from "../../../worker/level-one/model-words.ts";
import { parametersOf } from "../network.ts";
import { type ControlMemory, DeviceControl } from "./device-control.ts";
import { buildReplica, type Replica, type ReplicaPlan } from "./replica.ts";

/** Plain data that is posted to the thread. */
export type TrainingGrant = {
  /** From 1 up: device 0 is the owner's. */
  readonly device: number;
  readonly replica: ReplicaPlan;
  /** Where the owner laid the replica out. */
  readonly spans: readonly WorkspaceSpan[];
  readonly control: ControlMemory;
  /** Of the whole unit: the owner reads samples and labels. */
  readonly unit: { readonly address: number; readonly shape: Shape; readonly labelsAt: number; readonly sampleCountMax: number };
  readonly memory: ModelMemory;
  readonly meter: MeterMemory;
  readonly rules: RoundRules;
  readonly cpu: { readonly memory: CpuMemory; readonly options: CpuBackendOptions };
  /** Of the parameters, in their order. */
  readonly plans: readonly KeyPlan[];
};

export type DeviceLoopParts = {
  readonly clock: Clock;
  readonly timeline: () => number;
  /** Called when the device can compute. */
  readonly ready: () => void;
};

/** Runs until the thread is ended. Throws what the network throws: the thread ends, and the owner hears of it. */
export async function runDevice(grant: TrainingGrant, { clock, timeline, ready }: DeviceLoopParts): Promise<never> {
  const { device, memory, meter, rules, cpu, plans, spans, unit } = grant;
  const workspace = ReplicaWorkspace.attach(cpu.memory.memory, grant.replica.values, spans);
  const replica = await buildReplica(workspace, grant.replica);
  const words = new ModelWords(memory, device);
  const backend = new CpuBackend(cpu.memory, cpu.options, { thread: device, exclusively: (act) => words.locked(act) });
  const level = new LevelOne<Float32Array>({ memory, meter, thread: device, rules, clock, timeline, backend: backend as never });
  const parameters = parametersOf(replica.network);
  const pushes = parameters.map(({ gradient }, i) => ({
    ...{ data: gradient, plan: level.knowKey(plans[i]!), device, priority: 0, after: undefined },
  }));
  const control = new DeviceControl(grant.control);
  const inputOf = inputsOf(workspace, unit, grant.replica.sampleCountMax);
  const labels = new Float32Array(workspace.arena.memory.buffer, unit.labelsAt, unit.sampleCountMax);
  ready();
  for (let step = control.next(0); ; step = control.next(step)) {
    const { from, count } = control.samplesOf(device);
    let loss = 0;
    if (count === 0) for (const { gradient } of parameters) gradient.fill(0);
    else loss = compute(replica, inputOf(from, count), labels.subarray(from, from + count), control.divisor);
    control.setLoss(device, loss);
    level.push(pushes);
    control.done();
  }
}

/** Leaves the gradients in the parameters. Returns the sum of the samples' losses over the divisor. */
function compute({ network, loss }: Replica, input: Activations, labels: Float32Array, divisor: number): number {
  let activations = input;
  for (const stage of network.stages) activations = stage.forward(activations, true);
  const value = loss.compute(activations, labels, divisor);
  let gradient: Activations | undefined = loss.gradient;
  for (let i = network.stages.length - 1; i >= 0 && gradient !== undefined; i--) gradient = network.stages[i]!.backward(gradient, () => {});
  return value;
}

/** Samples of the unit where the owner has read them. Units of one size are dealt alike, so there are few. */
function inputsOf(
  { arena }: ReplicaWorkspace,
  { address, shape }: TrainingGrant["unit"],
  sampleCountMax: number,
): (from: number, count: number) => Activations {
  const known = new Map<string, Activations>();
  return (from, count) => {
    const name = `${from} ${count}`;
    let input = known.get(name);
    if (input === undefined) {
      const floats = (floatCount: number): { readonly address: number; readonly values: Float32Array } => {
        const at = address + (from * Float32Array.BYTES_PER_ELEMENT * floatCount) / count;
        return { address: at, values: new Float32Array(arena.memory.buffer, at, floatCount) };
      };
      input = new Activations({ floats }, shape, Math.min(count, sampleCountMax));
      input.sampleCount = count;
      known.set(name, input);
    }
    return input;
  };
}
