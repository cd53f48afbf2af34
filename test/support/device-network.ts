// device-network — a network with a layer that is not built in, made in every thread of a training: test of
// node/training-devices. The layer throws, or ends its thread, at a step that the name of the search parameter says.

import { isMainThread } from "node:worker_threads";
import { dense, type Layer, type LayerPlan, relu, Sequential, SoftmaxCrossEntropy, type Workspace } from "weighbridge/training";

export const INPUTS = 6;
export const CLASSES = 3;
const search = new URL(import.meta.url).searchParams;

/** ReLU, by a layer of this module. */
function ownRelu(): LayerPlan {
  return {
    kind: "own",
    open: (site): Layer => {
      const layer = relu().open(site);
      let step = 0;
      return {
        ...{ name: site.name, outputShape: layer.outputShape, parameters: [], statistics: [] },
        forward: (input, isTraining) => {
          step++;
          if (!isMainThread && step === Number(search.get("throws"))) throw new Error("the layer fell over");
          if (!isMainThread && step === Number(search.get("exits"))) process.exit(7);
          return layer.forward(input, isTraining);
        },
        backward: (gradient, ready) => layer.backward(gradient, ready),
      };
    },
  };
}

export function createNetwork(workspace: Workspace, { sampleCountMax }: { readonly sampleCountMax: number }): Sequential {
  const outputs = search.has("other") || (search.has("odd") && !isMainThread) ? 5 : 12;
  const layers = [dense({ name: "hidden", outputs }), ownRelu(), dense({ name: "head", outputs: CLASSES })];
  return new Sequential(workspace, { inputShape: [INPUTS], sampleCountMax, layers });
}

export function createLoss(workspace: Workspace, { sampleCountMax }: { readonly sampleCountMax: number }): SoftmaxCrossEntropy {
  return new SoftmaxCrossEntropy(workspace, { classCount: CLASSES, sampleCountMax });
}
