#!/bin/bash
#SBATCH --job-name=campaign
#SBATCH --array=0-7
#SBATCH --cpus-per-task=2
#SBATCH --mem=4G
# A campaign as a Slurm array: each task finds its part in SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT.
# From the project's directory, built and on a file system that all nodes share:
#
#   sbatch ci/campaign/slurm.sh WORKLOAD [KERNEL]
#
# and when all tasks have ended:
#
#   target/release/mlx5emu campaign merge --out report results/*
set -euo pipefail

workload=$1 kernel=${2-6.12}
# 120 says that there are findings: the report tells them.
target/release/mlx5emu campaign --workload "$workload" --kernel "$kernel" \
    --out "results/$workload-$kernel-$SLURM_ARRAY_TASK_ID" || [[ $? -eq 120 ]]
