//! Output formats of results: Parquet tables with the manifest that `catnip run` writes, CSV, and JSON.

use catnip_lab::{Bundle, Column, InputError, Scenario, Table, TableName};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

/// Number of rows in a row group of a Parquet file.
const ROW_GROUP: usize = 1 << 20;

/// Description of a run that suffices to repeat it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Manifest {
    created_by: String,
    scenario: String,
    title: String,
    scenario_sha256: String,
    variants: Vec<String>,
    seeds: Vec<u64>,
    /// Time of creation, always absent: equal runs have equal manifests, and the file system stores the time.
    created: Option<String>,
    /// Text of the scenario, followed by the scenarios on which it builds.
    text: String,
    source: Source,
    /// Other files of the scenario, by path relative to it: their SHA-256, and the text of short ones.
    files: BTreeMap<String, BTreeMap<&'static str, String>>,
    /// Interval of time series, which an emulation does not have.
    series: Option<String>,
    /// ID of the variant that lasts.
    points: Vec<String>,
}

/// File of a scenario: its name, its own text, and the keys that were set when it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Source {
    path: String,
    text: String,
    set: Vec<(String, String)>,
}

/// Largest file whose text is included in a manifest, bytes.
const MAX_TEXT: usize = 1 << 18;

impl Manifest {
    /// Creates the manifest of one run of a scenario. An error names a file that cannot be read any more.
    pub fn new(scenario: &Scenario, variant: &str, seed: u64) -> Result<Self, InputError> {
        let Bundle { path, text, set, files } = scenario.bundle()?;
        let ids = scenario.variants().zip(scenario.point_ids()?);
        let points = ids.filter(|(name, _)| *name == variant).map(|(_, id)| id).collect();
        let path = path.file_name().unwrap_or_default().display().to_string();
        let files = files.iter().map(|(file, bytes)| (file.display().to_string(), contents(bytes)));
        Ok(Self {
            created_by: format!("catnip-emu {}", env!("CARGO_PKG_VERSION")),
            scenario: scenario.id.clone(),
            title: scenario.title.clone(),
            scenario_sha256: sha256(scenario.text.as_bytes()),
            variants: vec![variant.into()],
            seeds: vec![seed],
            created: None,
            text: scenario.text.clone(),
            source: Source { path, text, set },
            files: files.collect(),
            series: None,
            points,
        })
    }
}

/// Returns the entry of a file in a manifest.
fn contents(bytes: &[u8]) -> BTreeMap<&'static str, String> {
    let text = str::from_utf8(bytes).ok().filter(|_| bytes.len() <= MAX_TEXT);
    let text = text.map(|text| ("text", text.to_string()));
    BTreeMap::from_iter([("sha256", sha256(bytes))].into_iter().chain(text))
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a table as Parquet, as `catnip run` does: names as text, unsigned counts, no nulls, and the variant by name.
pub fn write_parquet(table: &Table, variant: &str, out: impl Write + Send) -> Result<(), ParquetError> {
    let fields = table.columns().iter().map(|(name, column)| {
        let unsigned = LogicalType::integer(64, false);
        let (physical, logical) = match column {
            _ if *name == VARIANT => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Column::Float(_) => (Physical::DOUBLE, None),
            Column::Integer(_) => (Physical::INT64, Some(unsigned)),
            Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let field = Type::primitive_type_builder(name, physical).with_repetition(Repetition::REQUIRED);
        field.with_logical_type(logical).build().map(Arc::new)
    });
    let schema = Type::group_type_builder("schema").with_fields(fields.collect::<Result<_, _>>()?).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY);
    let mut writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build()))?;
    for first in (0..table.rows()).step_by(ROW_GROUP) {
        let rows = first..table.rows().min(first + ROW_GROUP);
        let mut group = writer.next_row_group()?;
        for (name, column) in table.columns() {
            match column {
                _ if *name == VARIANT => {
                    write::<ByteArrayType>(&mut group, &vec![ByteArray::from(variant); rows.len()])?;
                }
                Column::Float(values) => write::<DoubleType>(&mut group, &values[rows.clone()])?,
                Column::Integer(values) => {
                    let bits: Vec<i64> = values[rows.clone()].iter().map(|&value| value as i64).collect();
                    write::<Int64Type>(&mut group, &bits)?;
                }
                Column::Text(values) => {
                    let texts: Vec<ByteArray> = rows.clone().map(|row| values[row].into()).collect();
                    write::<ByteArrayType>(&mut group, &texts)?;
                }
            }
        }
        group.close()?;
    }
    writer.close()?;
    Ok(())
}

const VARIANT: &str = "variant";

fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    values: &[T::T],
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.expect("the schema has as many columns as the table");
    column.typed::<T>().write_batch(values, None, None)?;
    column.close()
}

/// Writes a table as CSV, with the variant by name.
pub fn write_csv(table: &Table, variant: &str, out: &mut impl Write) -> io::Result<()> {
    let names: Vec<&str> = table.columns().iter().map(|(name, _)| *name).collect();
    writeln!(out, "{}", names.join(","))?;
    for row in 0..table.rows() {
        for (index, (name, column)) in table.columns().iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            match column {
                _ if *name == VARIANT => write!(out, "{separator}{}", quoted(variant))?,
                // A missing number is an empty cell in CSV.
                Column::Float(values) if values[row].is_nan() => write!(out, "{separator}")?,
                Column::Float(values) => write!(out, "{separator}{}", values[row])?,
                Column::Integer(values) => write!(out, "{separator}{}", values[row])?,
                Column::Text(values) => write!(out, "{separator}{}", quoted(&values[row]))?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Quotes a text for a cell of CSV.
fn quoted(text: &str) -> Cow<'_, str> {
    match text.contains([',', '"', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")).into(),
        false => text.into(),
    }
}

/// Returns tables by name and column, with the variant by name.
pub fn json(tables: &BTreeMap<TableName, Table>, variant: &str) -> serde_json::Map<String, Value> {
    let columns = |table: &Table| -> Value {
        let columns = table.columns().iter().map(|(name, column)| {
            let values = match column {
                _ if *name == VARIANT => json!(vec![variant; table.rows()]),
                Column::Float(values) => json!(values),
                Column::Integer(values) => json!(values),
                Column::Text(values) => values.iter().collect(),
            };
            (name.to_string(), values)
        });
        Value::Object(columns.collect())
    };
    tables.iter().map(|(name, table)| (name.name().into(), columns(table))).collect()
}
