// device-loop — what the thread of a device does: builds its replica, and computes its samples of every step until the
// thread is ended. It reads values that the owner changes between steps only (docs/decisions/0066).

import type { Clock } from "../../../base/clock.ts";
import type { KernelMemory } from "../../../kernel/inlined-module.ts";
import { SimdOptimizerKernels } from "../../../kernel/optimizer-kernels.ts";
import { Activations, type Shape } from "../../../nn/activations.ts";
import { ReplicaWorkspace } from "../../../nn/replica-workspace.ts";
import type { WorkspaceSpan } from "../../../nn/workspace.ts";
import type { RoundRules } from "../../../worker/level-one/key-rounds.ts";
import { LevelOne } from "../../../worker/level-one/level-one.ts";
import type { KeyPlan } from "../../../worker/level-one/model-backend.ts";
import type { MeterMemory } from "../../../worker/level-one/model-meter.ts";
import type { ModelMemory } from "../../../worker/level-one/model-words.ts";
import { parametersOf } from "../network.ts";
import { type ControlMemory, DeviceControl } from "./device-control.ts";
import { type GradientSpans, GradientSums } from "./gradient-sums.ts";
import { buildReplica, type Replica, type ReplicaPlan } from "./replica.ts";
import { SharedLoop } from "./shared-loop.ts";

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
  /** The network's own. */
  readonly arena: KernelMemory;
  readonly gradients: GradientSpans;
  readonly plan: KeyPlan;
  /** Of updates that all threads make. */
  readonly loop: Int32Array;
  /** How long a thread looks for something to do before it sleeps. */
  readonly lookMs: number;
};

export type DeviceLoopParts = {
  readonly clock: Clock;
  readonly timeline: () => number;
  /** Called when the device can compute. */
  readonly ready: () => void;
};

/** Runs until the thread is ended. Throws what the network throws: the thread ends, and the owner hears of it. */
export async function runDevice(grant: TrainingGrant, { clock, timeline, ready }: DeviceLoopParts): Promise<never> {
  const { device, memory, meter, rules, spans, unit, lookMs } = grant;
  const workspace = ReplicaWorkspace.attach(grant.arena, grant.replica.values, spans);
  const replica = await buildReplica(workspace, grant.replica);
  const parameters = parametersOf(replica.network);
  const backend = new GradientSums(workspace.arena, grant.gradients, device);
  const level = new LevelOne<Float32Array>({ memory, meter, thread: device, rules, clock, timeline, backend, helps: true });
  const push = { data: parameters[0]!.gradient, plan: level.knowKey(grant.plan), device, priority: 0, after: undefined };
  workspace.arena.module.useJob(grant.gradients.scratch[device]!);
  const loop = new SharedLoop(grant.loop, new SimdOptimizerKernels(workspace.arena));
  const control = new DeviceControl(grant.control);
  const inputOf = inputsOf(workspace, unit, grant.replica.sampleCountMax);
  const labels = new Float32Array(workspace.arena.memory.buffer, unit.labelsAt, unit.sampleCountMax);
  ready();
  for (let step = 0; ; ) {
    level.help({ isCalled: () => control.step !== step || loop.hasShares, lookMs, sleeps: true });
    loop.help();
    if (control.step === step) continue;
    step = control.step;
    const { from, count } = control.samplesOf(device);
    let loss = 0;
    if (count === 0) for (const { gradient } of parameters) gradient.fill(0);
    else loss = compute(replica, inputOf(from, count), labels.subarray(from, from + count), control.divisor);
    control.setLoss(device, loss);
    level.push([push]);
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
