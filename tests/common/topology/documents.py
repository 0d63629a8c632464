"""One two-GPU node, written in each of the five forms."""

SEED = """\
mig-strategy: mixed
nodes:
  node-a:
    gpu-memory: 11441
    gpu-product: Tesla-K80
    gpus:
      - id: GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1
        # This section is filled by the status updater
        metrics:
          metadata:
            namespace: runai-project-a
            pod: pod
            container: container
          utilization: 10
          fb-used: 5000
      - id: GPU-kdiue726-57ef-91f0-837f-qjk49djklsk8
        # This section is filled by the status updater
        metrics:
          metadata:
            namespace: runai-project-a
            pod: pod
            container: container
          utilization: 100
          fb-used: 10000
"""
G1 = "GPU-8fc73fbd-91f0-697e-57ef-fc978bd54af1"
G2 = "GPU-kdiue726-57ef-91f0-837f-qjk49djklsk8"

CLUSTER = """\
mig-strategy: mixed
nodes:
  node-a:
    gpu-memory: 11441
    gpu-product: Tesla-K80
    gpus:
      - {}
      - {}
"""
CLUSTER_STATUS = """\
mig-strategy: mixed
nodes:
  node-a:
    gpu-memory: 11441
    gpu-product: Tesla-K80
    gpus:
      - status:
          allocated-by: {namespace: "", pod: "", container: ""}
          pod-gpu-usage-status: {}
      - {}
config:
  node-autofill: {gpu-count: 2, gpu-memory: 11441, gpu-product: Tesla-K80}
"""
FLAT_POOLS = """\
nodePools:
  default: {gpuProduct: Tesla-K80, gpuCount: 2, gpuMemory: 11441, otherDevices: [{name: example.com/x, count: 3}]}
nodePoolLabelKey: run.ai/simulated-gpu-node-pool
migStrategy: mixed
"""
BLOCK_POOLS = """\
nodePools:
  default:
    gpu:
      backend: fake
      profile: k80
      overrides: {device_count: 2, device_defaults: {name: Tesla-K80, memory: {total_bytes: 11996758016}}}
    resources: [{example.com/x: 3}, {nvidia.com/gpu: 2}]
    numa: {zones: 2, gpusPerZone: [1, 1]}
nodePoolLabelKey: run.ai/simulated-gpu-node-pool
migStrategy: mixed
"""
NODE = """\
gpuMemory: 11441
gpuProduct: Tesla-K80
gpus:
  - id: GPU-a
    status:
      allocatedBy: {namespace: team, pod: p, container: c}
      podGpuUsageStatus:
        uid-1: {utilization: {min: 80, max: 100}, fbUsed: 11441, useKnativeUtilization: false}
  - id: GPU-b
migStrategy: mixed
"""
