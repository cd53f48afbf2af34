// device-loop — what the thread of a device does: builds its replica, and computes chunks of every step until the
// thread is ended. It reads values that the owner changes between steps only (docs/decisions/0066).

import type { Clock } from "../../../base/clock.ts";
import type { KernelMemory } from "../../../kernel/inlined-module.ts";
import { SimdOptimizerKernels } from "../../../kernel/optimizer-kernels.ts";
import { ReplicaWorkspace } from "../../../nn/replica-workspace.ts";
import type { WorkspaceSpan } from "../../../nn/workspace.ts";
import type { RoundRules } from "../../../worker/level-one/key-rounds.ts";
import { LevelOne, type PushRequest } from "../../../worker/level-one/level-one.ts";
import type { KeyPlan } from "../../../worker/level-one/model-backend.ts";
import type { MeterMemory } from "../../../worker/level-one/model-meter.ts";
import type { ModelMemory } from "../../../worker/level-one/model-words.ts";
import { parametersOf } from "../network.ts";
import { ChunkRunner, type UnitMemory } from "./chunk-runner.ts";
import { type ControlMemory, DeviceControl } from "./device-control.ts";
import { type GradientSpans, GradientSums } from "./gradient-sums.ts";
import { buildReplica, type ReplicaPlan } from "./replica.ts";
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
  readonly unit: UnitMemory;
  readonly memory: ModelMemory;
  readonly meter: MeterMemory;
  readonly rules: RoundRules;
  /** The network's own. */
  readonly arena: KernelMemory;
  readonly gradients: GradientSpans;
  readonly plan: KeyPlan;
  /** Of updates that all threads make. */
  readonly loop: Int32Array;
  readonly look: LookTimes;
};

/** How long a thread looks for something to do before it sleeps. */
export type LookTimes = { readonly withinStepMs: number; readonly betweenStepsMs: number };

export type DeviceLoopParts = {
  readonly clock: Clock;
  readonly timeline: () => number;
  /** Called when the device can compute. */
  readonly ready: () => void;
};

/** Runs until the thread is ended. Throws what the network throws: the thread ends, and the owner hears of it. */
export async function runDevice(grant: TrainingGrant, { clock, timeline, ready }: DeviceLoopParts): Promise<never> {
  const { device, memory, meter, rules, spans, unit, look, gradients } = grant;
  const { isClaimed } = grant.control.dealing;
  const workspace = ReplicaWorkspace.attach(grant.arena, grant.replica.values, spans);
  const replica = await buildReplica(workspace, grant.replica);
  const { arena } = workspace;
  const control = new DeviceControl(grant.control, device);
  const backend = new GradientSums(workspace, gradients, device, () => control.chunkCount);
  const level = new LevelOne<Float32Array>({ memory, meter, thread: device, rules, clock, timeline, backend, helps: true });
  const pushes = pushesOf(rules.devices.length, level.knowKey(grant.plan), parametersOf(replica.network)[0]!.gradient);
  arena.module.useJob(gradients.scratch[device]!);
  const loop = new SharedLoop(grant.loop, new SimdOptimizerKernels(arena));
  const runner = new ChunkRunner({ arena, replica, control, unit, gradients, isClaimed });
  const isCalled = (): boolean => control.hasChunk || loop.hasShares;
  ready();
  for (;;) {
    level.help({ isCalled: () => isCalled() || control.isBetweenSteps, lookMs: look.withinStepMs, sleeps: true });
    level.help({ isCalled, lookMs: look.betweenStepsMs, sleeps: true });
    loop.help();
    if (runner.run()) level.push(pushes);
  }
}

/** Of all devices but the owner's: the one that computes the last chunk of a step pushes for all of them. */
export function pushesOf(deviceCount: number, plan: KeyPlan, data: Float32Array): readonly PushRequest<Float32Array>[] {
  return Array.from({ length: deviceCount - 1 }, (_, i) => ({ data, plan, device: i + 1, priority: 0, after: undefined }));
}
