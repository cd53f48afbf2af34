// replica — the network and the loss with which a device computes: of built-in layers, from their description, or made
// by a module that every thread imports. A replica has the values of the network that is trained
// (nn/replica-workspace.ts).

import { badArgument, reasonOf, WeighbridgeError } from "../../../base/errors.ts";
import { buildLoss, buildNetwork, type LossDescription, type NetworkDescription } from "../../../nn/built-in-networks.ts";
import type { SharedValues } from "../../../nn/replica-workspace.ts";
import type { Workspace } from "../../../nn/workspace.ts";
import { checkLoss, checkNetwork, type Loss, type Network, parametersOf } from "../network.ts";

/** Plain data: where a thread gets its replica from. */
export type ReplicaSource =
  | { readonly kind: "built-in"; readonly network: NetworkDescription; readonly loss: LossDescription }
  | { readonly kind: "module"; readonly url: string };

export type Replica = { readonly network: Network; readonly loss: Loss };

/** What a module that makes networks exports; both are called with the same arguments. */
export type ReplicaModule = {
  readonly createNetwork: (workspace: Workspace, options: { readonly sampleCountMax: number }) => Network;
  readonly createLoss: (workspace: Workspace, options: { readonly sampleCountMax: number }) => Loss;
};

export type ReplicaPlan = {
  readonly source: ReplicaSource;
  readonly sampleCountMax: number;
  /** Of all parameters of the network that is trained. */
  readonly values: readonly SharedValues[];
};

/** Throws BAD_ARGUMENT for a module that does not make this network. */
export async function buildReplica(workspace: Workspace, { source, sampleCountMax, values }: ReplicaPlan): Promise<Replica> {
  if (source.kind === "built-in") {
    const network = buildNetwork(workspace, source.network, sampleCountMax);
    return { network, loss: buildLoss(workspace, source.loss, sampleCountMax) };
  }
  const { createNetwork, createLoss } = await replicaModule(source.url);
  const network = createNetwork(workspace, { sampleCountMax });
  const loss = createLoss(workspace, { sampleCountMax });
  checkNetwork(network);
  checkLoss(loss);
  checkSame(source.url, network, values);
  return { network, loss };
}

async function replicaModule(url: string): Promise<ReplicaModule> {
  let loaded: Partial<ReplicaModule>;
  try {
    loaded = (await import(url)) as Partial<ReplicaModule>;
  } catch (thrown) {
    throw new WeighbridgeError("BAD_ARGUMENT", `devices: ${url} cannot be loaded: ${reasonOf(thrown)}`, { cause: thrown });
  }
  const { createNetwork, createLoss } = loaded;
  if (typeof createNetwork === "function" && typeof createLoss === "function") return { createNetwork, createLoss };
  throw badArgument(`devices: ${url} has to export the functions createNetwork and createLoss`);
}

function checkSame(url: string, network: Network, values: readonly SharedValues[]): void {
  const parameters = parametersOf(network);
  const isSame =
    parameters.length === values.length &&
    parameters.every(
      ({ name, address, gradient }, i) =>
        values[i]!.name === name && values[i]!.address === address && values[i]!.floatCount === gradient.length,
    );
  if (isSame) return;
  const text = (list: readonly { readonly name: string }[]): string => list.map(({ name }) => name).join(", ");
  throw badArgument(
    `devices: the network of ${url} has the parameters ${text(parameters)}, the network that is trained has ${text(values)}, or they have other shapes`,
  );
}
