package cockroach

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/idxtype"
	"github.com/cockroachdb/cockroachdb-parser/pkg/sql/sem/tree"
)

// features are the parts of a statement in which databases that speak PostgreSQL's language differ.
func features(statement tree.Statement) []string {
	list := []string{statement.StatementTag()}
	walk(reflect.ValueOf(statement), func(node any) { list = append(list, featuresOf(node)...) })
	return list
}

// walk hands over every node of a syntax tree, wherever it stands.
func walk(v reflect.Value, do func(node any)) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Kind() == reflect.Pointer && !strings.HasSuffix(v.Type().Elem().PkgPath(), "/sem/tree") {
			return
		}
		if v.Kind() == reflect.Pointer {
			do(v.Interface())
		}
		walk(v.Elem(), do)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				walk(v.Field(i), do)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), do)
		}
	}
}

func featuresOf(node any) (list []string) {
	add := func(is bool, feature string) {
		if is {
			list = append(list, feature)
		}
	}
	switch n := node.(type) {
	case *tree.FuncExpr:
		add(true, "function "+n.Func.String())
	case *tree.CastExpr:
		add(true, "type "+n.Type.SQLString())
	case *tree.With:
		add(true, "WITH")
	case *tree.LockingItem:
		add(true, strings.TrimSpace(tree.AsString(n)))
	case *tree.BeginTransaction:
		add(n.Modes.Isolation != tree.UnspecifiedIsolation, "isolation "+n.Modes.Isolation.String())
	case *tree.OnConflict:
		add(n.IsUpsertAlias(), "UPSERT")
		add(n.DoNothing, "ON CONFLICT DO NOTHING")
		add(len(n.Exprs) > 0, "ON CONFLICT DO UPDATE")
		add(n.ArbiterPredicate != nil || n.Constraint != "", "ON CONFLICT by a predicate or a constraint")
	case *tree.ReturningExprs:
		add(true, "RETURNING")
	case *tree.CreateTable:
		add(n.IfNotExists, "IF NOT EXISTS")
		add(n.Persistence != tree.PersistencePermanent, "TEMPORARY or UNLOGGED")
		add(n.As(), "CREATE TABLE AS")
		add(n.StorageParams != nil || n.PartitionByTable != nil || n.Locality != nil, "table parameters")
	case *tree.CreateIndex:
		add(n.IfNotExists, "IF NOT EXISTS")
		add(n.Unique, "UNIQUE INDEX")
		add(n.Type != idxtype.FORWARD, "inverted or vector index")
		add(n.Predicate != nil, "partial index")
		add(n.Concurrently, "CONCURRENTLY")
		add(n.Storing != nil || n.Sharded != nil || n.StorageParams != nil || n.PartitionByIndex != nil,
			"index parameters")
	case *tree.ColumnTableDef:
		list = append(list, columnFeatures(n)...)
	case *tree.CheckConstraintTableDef:
		add(true, "CHECK")
	case *tree.UniqueConstraintTableDef:
		add(n.PrimaryKey, "PRIMARY KEY")
		add(!n.PrimaryKey, "UNIQUE")
	case *tree.ForeignKeyConstraintTableDef:
		list = append(list, referenceFeatures(n.Actions, n.Match)...)
	}
	return list
}

func columnFeatures(n *tree.ColumnTableDef) (list []string) {
	for feature, is := range map[string]bool{
		"type " + n.Type.SQLString(): true,
		"SERIAL":                     n.IsSerial,
		"GENERATED AS IDENTITY":      n.GeneratedIdentity.IsGeneratedAsIdentity,
		"PRIMARY KEY":                n.PrimaryKey.IsPrimaryKey,
		"UNIQUE":                     n.Unique.IsUnique,
		"DEFAULT":                    n.DefaultExpr.Expr != nil,
		"ON UPDATE":                  n.OnUpdateExpr.Expr != nil,
		"CHECK":                      len(n.CheckExprs) > 0,
		"computed column":            n.Computed.Computed,
	} {
		if is {
			list = append(list, feature)
		}
	}
	if n.References.Table != nil {
		list = append(list, referenceFeatures(n.References.Actions, n.References.Match)...)
	}
	return list
}

func referenceFeatures(actions tree.ReferenceActions, match tree.CompositeKeyMatchMethod) []string {
	list := []string{"FOREIGN KEY"}
	if actions.Delete != tree.NoAction {
		list = append(list, fmt.Sprintf("ON DELETE %s", actions.Delete))
	}
	if actions.Update != tree.NoAction {
		list = append(list, fmt.Sprintf("ON UPDATE %s", actions.Update))
	}
	if match != tree.MatchSimple {
		list = append(list, match.String())
	}
	return list
}
