"""The public API equals its snapshot, and a package exports the classes that its methods return."""

import difflib
import re
from importlib import import_module

import pytest
from tests.annotations import classes_in_annotations, exported_values
from tools.public_api import PACKAGES, TARGET, yield_api_lines

import kafkaframes.client
import kafkaframes.errors.exceptions

# The names in the API whose type is Any, with the reason. JSON values are Any in every Python library.
_JSON = re.compile(r"\.(as_json|to_dict|to_json|from_json)$")
_DAMAGE_REASON = "damage of logs, topics or captures; their three classes have no common base"
_FIELDS_REASON = "fields of any message"
_SETTINGS_REASON = "settings of any job, as JSON values"
_STORAGE_REASON = "storage options are those of fsspec"
ANY_TYPES = {
    "kafkaframes.build_records": "columns of many kinds: mappings, tables, data frames; records/rows.py checks them",
    "kafkaframes.export_log": _STORAGE_REASON,
    "kafkaframes.export_topics": "client settings are typed in client/options.py",
    "kafkaframes.mirror_topics": "client settings are typed in client/options.py",
    "kafkaframes.scan_log": _STORAGE_REASON,
    "kafkaframes.scan_topic": "client settings are typed in client/options.py",
    "kafkaframes.table_log": "storage options are those of fsspec",
    "kafkaframes.table_topics": "client settings are typed in client/options.py",
    "kafkaframes.dump_log": _STORAGE_REASON,
    "kafkaframes.grep_log": _STORAGE_REASON,
    "kafkaframes.jobs.LogDump.write_to": "any file that accepts bytes",
    "kafkaframes.jobs.RecordAnalysis.rows": "rows as JSON values",
    "kafkaframes.jobs.TagHeaderSizes.rows": "rows as JSON values",
    "kafkaframes.protocol.encode_message": _FIELDS_REASON,
    "kafkaframes.broker.Broker.append": "values of a record's fields; records/rows.py checks them",
    "kafkaframes.broker.Broker.on": "conditions are fields of any API's request",
    "kafkaframes.broker.Journal.assert_not_requested": "conditions are fields of any API's request",
    "kafkaframes.broker.Journal.assert_requested": "conditions are fields of any API's request",
    "kafkaframes.broker.Journal.count": "conditions are fields of any API's request",
    "kafkaframes.broker.JournalEntry": "requests and responses of any API",
    "kafkaframes.broker.Kerberos.credentials": "objects of gssapi, which has no types",
    "kafkaframes.broker.Rule.answer": "a response of any API, or its fields",
    "kafkaframes.broker.ServedLogs": _STORAGE_REASON,
    "kafkaframes.errors.DamagedChunkError": "the position, whose type is that of the base class",
    "kafkaframes.errors.PartialFailureError": "keys are the items of any request",
    "kafkaframes.errors.PartialFailureError.errors": "keys are the items of any request",
    "kafkaframes.jobs.CompactionReport": _SETTINGS_REASON,
    "kafkaframes.jobs.JobReport": _SETTINGS_REASON,
    "kafkaframes.jobs.JobResult": "the report as JSON values",
    "kafkaframes.jobs.Outcome": "the state of a table, as JSON values",
    "kafkaframes.jobs.RepairReport": _SETTINGS_REASON,
    "kafkaframes.jobs.RestoreReport": _SETTINGS_REASON,
    "kafkaframes.protocol.Message": _FIELDS_REASON,
    "kafkaframes.protocol.Message.find": _FIELDS_REASON,
    "kafkaframes.protocol.Message.find_all": _FIELDS_REASON,
    "kafkaframes.protocol.Message.replace": _FIELDS_REASON,
    "kafkaframes.scan.RecordBatches": _DAMAGE_REASON,
    "kafkaframes.scan.RecordBatches.to_pandas": "options are those of pyarrow's to_pandas",
    "kafkaframes.scan.Scan.to_pandas": "options are those of pyarrow's to_pandas",
    "kafkaframes.scan.ScanPlan": _DAMAGE_REASON,
    "kafkaframes.scan.ScanSlice.read": _DAMAGE_REASON,
    "kafkaframes.spark.TopicListener": "settings of clients, as JSON values",
    "kafkaframes.spark.TopicListener.onQueryProgress": "events of Spark, which the class accepts without PySpark",
    "kafkaframes.spark.TopicListener.onQueryStarted": "events of Spark, which the class accepts without PySpark",
    "kafkaframes.spark.TopicListener.onQueryTerminated": "events of Spark, which the class accepts without PySpark",
    "kafkaframes.spark.restore_log": "settings are those of kafkaframes.restore_log, whose signature has their types",
    "kafkaframes.spark.write_log": "options of Spark are of any type",
    "kafkaframes.testing.SchemaRegistry.register": "a schema is JSON of any form",
    "kafkaframes.testing.assert_records": "records are compared in all forms in which this package returns them",
    "kafkaframes.spark.write_topic": "a trigger's value is that of Spark's trigger()",
}


def test_each_any_type_has_a_reason():
    lines = [line for line in TARGET.read_text().splitlines() if re.search(r"\bAny\b", line)]
    names = {re.match(r"[\w.]+", line)[0] for line in lines}
    assert {name for name in names if not _JSON.search(name)} == set(ANY_TYPES)


def test_the_package_of_errors_exports_exceptions_only():
    exported_objects = {name: getattr(kafkaframes.errors, name) for name in kafkaframes.errors.__all__}
    assert [name for name, value in exported_objects.items() if not issubclass(value, Exception)] == []
    assert set(exported_objects) == {
        name for name in vars(kafkaframes.errors.exceptions) if re.fullmatch(r"[A-Z]\w*Error", name)
    }


def test_the_public_api_equals_its_snapshot():
    pytest.importorskip("pyspark")
    changes = list(difflib.unified_diff(TARGET.read_text().splitlines(), list(yield_api_lines()), lineterm="", n=0))
    assert changes == [], "run python tools/public_api.py, and review the change"


# Classes in public annotations that no public package exports, with the reason. Parts of a report are values that users
# reach through the report: several reports have a PartitionReport of their own.
_REPORT_PART_REASON = "a part of a report, which a field of the report contains"
_INTERNAL_REASON = "internal state of the object; users do not create or read it"
NOT_EXPORTED = {
    "broker.faults.rules.RuleHistory": _INTERNAL_REASON,
    "broker.network.server.Listener": _INTERNAL_REASON,
    "broker.network.server.Server": _INTERNAL_REASON,
    "broker.requests.api.DeferredResponse": "what hooks of the dispatcher return",
    "broker.requests.api.EncodedResponse": "what hooks of the dispatcher accept",
    "broker.requests.request.TypedRequest": "a request inside the broker, for conditions and answers of rules",
    "broker.security.access.Authorizer": _INTERNAL_REASON,
    "broker.security.kerberos.PrincipalRules": _INTERNAL_REASON,
    "broker.security.options.Credentials": _INTERNAL_REASON,
    "broker.settings.settings.BrokerSettings": _INTERNAL_REASON,
    "broker.state.state.BrokerState": "the broker's state, for Broker.call",
    "capture.recorder.RecorderSettings": "only record_traffic creates recordings",
    "client.metadata.TopicUpdate": "the result of Cluster.read_topics, which only the connections call",
    "client.record_futures.FutureOwner": "only producers create futures",
    "client.record_futures.ThreadResults": "only producers create futures",
    "client.settings.ClientSettings": "users pass settings by keyword or as properties",
    "client.settings.ConsumerSettings": "users pass settings by keyword or as properties",
    "jobs.analyze.outcome.SizeComparison": _REPORT_PART_REASON,
    "jobs.analyze.proposals.ProposalSettings": _REPORT_PART_REASON,
    "jobs.analyze.records.RecordSizes": _REPORT_PART_REASON,
    "jobs.audit.audit.AuditVerdict": _REPORT_PART_REASON,
    "jobs.audit.audit.ClientAudit": _REPORT_PART_REASON,
    "jobs.checkpoint.CheckpointSource": "a part of a checkpoint",
    "jobs.compact.compaction.CompactedPartition": _REPORT_PART_REASON,
    "jobs.convert.segment.ConvertedPartition": _REPORT_PART_REASON,
    "jobs.dump.dump.DumpSettings": "only dump_log creates dumps",
    "jobs.dump.summary.SegmentSummary": _REPORT_PART_REASON,
    "jobs.export.tally.ExportSummary": _REPORT_PART_REASON,
    "jobs.export.task.SegmentResult": _REPORT_PART_REASON,
    "jobs.mirror.settings.MirroredPartition": _REPORT_PART_REASON,
    "jobs.report.copies.CopyReport": _REPORT_PART_REASON,
    "jobs.report.measure.DamagedBatch": _REPORT_PART_REASON,
    "jobs.report.model.DirectoryReport": _REPORT_PART_REASON,
    "jobs.report.model.PartitionReport": _REPORT_PART_REASON,
    "jobs.report.model.ProducerReport": _REPORT_PART_REASON,
    "jobs.report.model.SizeReport": _REPORT_PART_REASON,
    "jobs.report.model.TimeReport": _REPORT_PART_REASON,
    "jobs.report.model.TopicReport": _REPORT_PART_REASON,
    "jobs.report.model.TransactionReport": _REPORT_PART_REASON,
    "jobs.report.model.UnreadFile": _REPORT_PART_REASON,
    "jobs.report.traffic.ApiTraffic": _REPORT_PART_REASON,
    "jobs.restore.groups.GroupsReport": _REPORT_PART_REASON,
    "jobs.restore.partition.RestoredPartition": _REPORT_PART_REASON,
    "protocol.messages.annotate.AnnotatedMessage": _INTERNAL_REASON,
    "protocol.messages.annotate.AnnotatedRange": "a field of an explanation",
    "protocol.messages.codec.Codec": _INTERNAL_REASON,
    "protocol.spec.catalog.ledgers.TagCollision": "a part of a TagTable",
    "protocol.spec.changes.EvolutionRule": "a part of a SpecChange",
    "protocol.spec.drafts.FieldLocation": _INTERNAL_REASON,
    "protocol.spec.drafts.MessageDraft": _INTERNAL_REASON,
    "protocol.spec.kip_636.RewriteResult": _REPORT_PART_REASON,
    "protocol.spec.model.FieldSpec": "a part of a MessageSpec",
    "protocol.spec.model.StructSpec": "a part of a MessageSpec",
    "protocol.spec.releases.Release": _REPORT_PART_REASON,
    "protocol.spec.versions.Versions": "a part of a MessageSpec",
    "records.annotate.AnnotatedBytes": "a part of an explanation",
    "records.memory.Recycler": "for programs that read many fetches",
    "records.scan.BatchHeaders": "headers of batches, as arrays",
    "scan.decoded.ValueDecoding": _INTERNAL_REASON,
    "scan.log.resolve.ReadPlan": _REPORT_PART_REASON,
    "scan.slices.ScanProgress": _INTERNAL_REASON,
    "scan.slices.ScanSource": _INTERNAL_REASON,
    "scan.slices.SliceWork": _INTERNAL_REASON,
    "scan.where.RowFilter": _INTERNAL_REASON,
    "storage.copies.decisions.Decision": _REPORT_PART_REASON,
    "storage.log.notes.LogNotes": _REPORT_PART_REASON,
    "storage.log.transactions.TransactionState": _INTERNAL_REASON,
    "wire.primitives.DeferredBytes": _INTERNAL_REASON,
}


def test_the_classes_in_public_annotations_are_exported():
    pytest.importorskip("pyspark")
    exported_names = exported_values()
    # exported, but not by a star import
    unlisted_classes = {kafkaframes.errors.ErrorCode, kafkaframes.errors.RecordRefusal}
    users = {}
    for value, name in exported_names.items():
        for member, kind in classes_in_annotations(value):
            if kind not in exported_names and kind not in unlisted_classes:
                users.setdefault(f"{kind.__module__}.{kind.__name__}".removeprefix("kafkaframes."), f"{name}.{member}")
    assert {kind: user for kind, user in users.items() if kind not in NOT_EXPORTED} == {}, "export it from its package"
    assert set(NOT_EXPORTED) - set(users) == set(), "these classes are no longer in an annotation, or are exported now"


def test_the_annotations_of_methods_that_return_classes_are_read():
    """Otherwise the test above would pass if it found no annotations."""
    client = [kafkaframes.client.Producer, kafkaframes.client.Admin, kafkaframes.client.Cluster]
    kinds = {kind.__name__ for value in client for _, kind in classes_in_annotations(value)}
    assert {"RecordFuture", "Cluster", "Node", "GroupDescription", "ProducerIdentity", "TopicMetadata"} <= kinds
    assert "VerifyReport" in {kind.__name__ for _, kind in classes_in_annotations(kafkaframes.verify_log)}


@pytest.mark.parametrize("package", [name for name in PACKAGES if hasattr(import_module(name), "_MODULES")])
def test_a_package_imports_each_public_name_on_use(package):
    module = import_module(package)
    assert set(dir(module)) == set(module.__all__)
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = module.Nothing
