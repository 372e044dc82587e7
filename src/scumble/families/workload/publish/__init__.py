"""The strategy that suits a list of questions."""

from scumble.families.workload.publish.workload import Workload as Workload
